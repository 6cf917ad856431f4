"""The tests of the lease protocol, tested: each variant of the SQL that is broken on purpose fails one of them."""

import importlib.util
import inspect
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from psycopg.errors import LockNotAvailable, QueryCanceled

from support.postgres import execute
from support.protocol import EAR, JUST_QUEUED, Client, rewrite

pytestmark = pytest.mark.exhaustive


@dataclass(frozen=True)
class Mutant:
    """In the body of `function`, `good` becomes `bad`, or `statement` is run; that test will notice."""

    what: str
    found_by: tuple[str, str]
    function: str = ""
    good: str = ""
    bad: str = ""
    statement: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)

    def apply(self, url: str) -> None:
        if self.statement:
            execute(url, self.statement)
        else:
            rewrite(url, self.function, self.good, self.bad, everywhere=True)


FREE = "FOR UPDATE OF l SKIP LOCKED"
RENEWED = "interlock.grant_v1(l.token, l.grant_id) = substring(grants, 24 * a.request::integer - 23, 24)"
QUEUE = "pg_advisory_xact_lock(1229737036, interlock.queue_lock_v1({}))"
SAW_IT_FREE = ("grants", "test_who_saw_it_free_and_came_to_take_it_after_another_gets_nothing")
WRONG = ("grants", "test_a_wrong_token_or_grant_id_touches_nothing")
STALE = ("grants", "test_a_holder_that_lost_its_lease_touches_nothing_of_its_successors")
LATE = ("grants", "test_a_lease_that_has_expired_cannot_be_renewed_even_if_nobody_has_taken_it")
RESEND = ("grants", "test_a_resend_finds_its_own_grant_and_what_is_left_of_it")
LOCKED = ("batches", "test_a_row_that_somebody_else_has_locked_holds_up_nobody")
RENEWALS = ("batches", "test_renewals_and_releases_of_a_batch_pass_a_locked_row")
PATIENCE = ("batches", "test_a_renewal_leaves_the_time_that_a_transaction_waits_for_locks_as_it_was")
JUST_COMING = ("waking", "test_a_release_waits_for_who_is_just_coming_and_tells_it")
TOKENS = ("tokens", "test_a_token_is_higher_than_every_one_before")

CLIENTS = {"first", "second", "third", "ear"}
COMING_IN_A_BATCH = {"function": "acquire_many_v1", "before": "-- A clock that was set back"}


def alone(client: Client, name: str = "feeds") -> Any:
    return client.ask(name)


def in_a_batch(client: Client, name: str = "feeds") -> Any:
    return client.ask_many([name])[0]


def happening(name: str) -> dict[str, Any]:
    return {"happens": getattr(of_theme("tokens"), name)}


@cache
def of_theme(theme: str) -> ModuleType:
    """The tests of one theme, as they stand beside this file."""
    path = Path(__file__).with_name(f"test_protocol_{theme}.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BEGINNING = ("beginning", "test_whoever_has_left_the_queue_is_not_read_again")
LATE_COMER = ("beginning", "test_who_was_long_in_coming_does_not_come_before_the_queue_begins")
ITSELF = ("handing_on", "test_nobody_is_next_after_itself")
HAS_LOST_IT = ("handing_on", "test_who_gives_back_what_it_has_lost_leaves_the_queue_and_waits_for_nobody")

MUTANTS = [
    Mutant("acquire without the row lock", SAW_IT_FREE, "acquire_v1", FREE, "", arguments={"function": "acquire_v1"}),
    Mutant(
        "acquire_many without the row lock", SAW_IT_FREE, "acquire_many_v1", FREE, "",
        arguments={"function": "acquire_many_v1"},
    ),
    Mutant(
        "acquire of what is held", ("grants", "test_a_lease_is_free_from_the_moment_it_expires_and_not_before"),
        "acquire_v1", "AND l.expires_at <= moment AND e.only_row", "AND e.only_row",
        arguments={"ask": alone},
    ),
    Mutant(
        "acquire that goes by a time before it had the row", ("grants", "test_a_grant_counts_from_when_it_has_the_row"),
        "acquire_v1", "        moment := interlock.now_v1();\n", "",
    ),
    Mutant(
        "acquire that waits for locked rows", ("grants", "test_who_comes_while_another_is_just_taking_it_gets_nothing"),
        "acquire_v1", FREE, "FOR UPDATE OF l", arguments={"ask": alone},
    ),
    Mutant("a batch that waits for locked rows", LOCKED, "acquire_many_v1", FREE, "FOR UPDATE OF l",
           arguments={"lock": "FOR UPDATE"}),
    Mutant("renewals that wait for locked rows", RENEWALS, "renew_many_v1", "FOR NO KEY UPDATE OF l SKIP LOCKED",
           "FOR NO KEY UPDATE OF l"),
    Mutant("renewals that do not give up a locked row", RENEWALS, "renew_many_v1", "'1ms'", "'0'"),
    Mutant("renewals that are told to be asked for again", RENEWALS, "renew_many_v1",
           "WHERE l.renewed_at IS DISTINCT FROM moment", ""),
    Mutant("renewals that change how long others wait", PATIENCE, "renew_many_v1",
           "PERFORM set_config('lock_timeout', patience, true);", ""),
    Mutant("releases that wait for locked rows", RENEWALS, "release_many_v1", "FOR NO KEY UPDATE OF l SKIP LOCKED",
           "FOR NO KEY UPDATE OF l"),
    Mutant(
        "one name granted twice in a batch", ("batches", "test_of_several_requests_for_one_name_the_first_gets_it"),
        "acquire_many_v1", "SELECT DISTINCT ON (a.name) a.name, a.request", "SELECT a.name, a.request",
    ),
    Mutant("a resend that is a stranger", RESEND, "acquire_many_v1",
           "WHEN l.expires_at > moment AND l.grant_id = a.grant_id", "WHEN false", arguments={"ask": alone}),
    Mutant("release by holder", WRONG, "release_v1",
           "AND l.token = release_v1.token AND l.grant_id = release_v1.grant_id\n     ORDER", "ORDER"),
    Mutant("release by token only", WRONG, "release_v1", "AND l.grant_id = release_v1.grant_id\n     ORDER", "ORDER"),
    Mutant("release of a batch by grant_id only", WRONG, "release_many_v1", "l.token = a.token AND ", ""),
    Mutant("renewal by holder", STALE, "renew_many_v1", RENEWED, "true"),
    Mutant("renewal by grant_id only", WRONG, "renew_many_v1", RENEWED,
           "uuid_send(l.grant_id) = substring(grants, 24 * a.request::integer - 15, 16)"),
    Mutant("renewal of what has expired", LATE, "renew_many_v1", "l.name = a.name AND l.expires_at > moment",
           "l.name = a.name"),
    Mutant("DELETE on release", TOKENS, "release_v1",
           "UPDATE interlock.lease l\n       SET grant_id = NULL, expires_at = '-infinity',\n           queue_from = "
           "least(coalesce(first.enqueued_at, l.queue_from), moment)\n     WHERE",
           "DELETE FROM interlock.lease l WHERE", arguments=happening("set_back")),
    Mutant("tokens by the clock only", TOKENS, "acquire_v1",
           "greatest(l.token + 1, (extract(epoch FROM moment) * 1000000)::bigint)",
           "(extract(epoch FROM moment) * 1000000)::bigint", arguments=happening("set_back")),
    Mutant("tokens of a batch by the clock only", TOKENS, "acquire_many_v1",
           "greatest(l.token + 1, (extract(epoch FROM moment) * 1000000)::bigint)",
           "(extract(epoch FROM moment) * 1000000)::bigint", arguments=happening("taken_in_a_batch")),
    Mutant("a counter that is deleted with its row", TOKENS, "sweep_v1", "greatest(e.token_floor, highest)",
           "e.token_floor", arguments=happening("set_back_and_swept")),
    Mutant("names that are added while they are swept",
           ("tokens", "test_a_name_that_comes_back_while_it_is_swept_goes_on_above"),
           "register_v1", "PERFORM pg_advisory_xact_lock_shared(1229737038, 0);", ""),
    Mutant("leases far in the future told by an old time",
           ("grants", "test_whoever_asks_slowly_does_not_cut_short_a_lease_that_was_renewed_meanwhile"),
           "acquire_many_v1", "interlock.now_v1() + make_interval", "moment + make_interval"),
    Mutant("release without the queue's lock", JUST_COMING, "release_v1", QUEUE.format("release_v1.name"), "'no lock'",
           arguments=JUST_QUEUED),
    Mutant("queuing without the queue's lock", JUST_COMING, "acquire_v1",
           "pg_try_advisory_xact_lock_shared(1229737036, interlock.queue_lock_v1(acquire_v1.name))", "true",
           arguments=JUST_QUEUED),
    Mutant("queuing in a batch without the queue's lock", JUST_COMING, "acquire_many_v1",
           "pg_try_advisory_xact_lock_shared(1229737036, interlock.queue_lock_v1(a.name))", "true",
           arguments=COMING_IN_A_BATCH),
    Mutant("leaving without the queue's lock",
           ("waking", "test_who_leaves_while_a_release_calls_it_passes_the_call_on"),
           "abandon_many_v1", "pg_advisory_xact_lock(1229737036, q.bucket)", "q.bucket",
           arguments={"function": "offer_v1", "before": "RETURN QUERY"}),
    Mutant("breaking without the queue's lock",
           ("waking", "test_who_comes_while_a_lease_is_broken_is_told_to_ask_again"), "break_v1",
           QUEUE.format("lease_name"), "'no lock'"),
    Mutant("everybody before the first taken for dead",
           ("waking", "test_an_earlier_arrival_that_commits_late_keeps_its_place"),
           "offer_v1", "AND NOT interlock.waits_v1(w.listener, w.seen_at, w.offered_at, moment)", ""),
    Mutant("tries that overtake", ("queue", "test_who_only_tries_never_overtakes_who_waits"), "acquire_v1",
           "coalesce(acquire_v1.grant_id = (", "coalesce(true OR acquire_v1.grant_id = (", arguments={"is_free": True}),
    Mutant("nobody is told", ("queue", "test_a_release_tells_the_first_and_nobody_else"), "release_v1",
           "pg_notify('interlock_' || ear, offered::text)", "'nobody'"),
    Mutant("the newest is told", ("queue", "test_who_waits_is_served_in_the_order_of_arrival"), "release_v1",
           "ORDER BY w.enqueued_at, w.grant_id LIMIT 1", "ORDER BY w.enqueued_at DESC LIMIT 1"),
    Mutant("the first is next after itself", ITSELF, "release_v1",
           "EXIT WHEN first.grant_id IS DISTINCT FROM release_v1.grant_id;", "EXIT;",
           arguments={"before": True, "direct": True}),
    Mutant("whoever is next will be itself", ITSELF, "release_v1", "IN (first.grant_id, release_v1.grant_id)",
           "= first.grant_id", arguments={"before": False, "direct": True}),
    Mutant("whoever is called will be itself", ITSELF, "release_v1", "IF first.grant_id IS NOT NULL THEN",
           "IF false THEN", arguments={"before": False, "direct": False}),
    Mutant("whoever has lost it waits for its place in the queue", HAS_LOST_IT, "release_v1",
           "v.name = release_v1.name FOR UPDATE SKIP LOCKED", "v.name = release_v1.name FOR UPDATE"),
    Mutant("whoever has lost it leaves all queues", HAS_LOST_IT, "release_v1", "AND v.name = release_v1.name", ""),
    Mutant("handing on past a guard",
           ("handing_on", "test_what_a_transaction_guards_is_not_handed_on_before_its_end"), "release_v1",
           "FOR UPDATE OF l SKIP LOCKED", ""),
    Mutant("handing on after a promotion", ("handing_on", "test_after_a_promotion_nothing_is_handed_on"), "release_v1",
           "e.timeline = interlock.timeline_v1()", "true"),
    Mutant("a release that looks for its lease again", ("costs", "test_a_lease_is_looked_for_once"), "release_v1",
           "l.ctid = place", "l.name = release_v1.name", arguments={"step": of_theme("costs").released}),
    Mutant("queues that are read from the beginning", BEGINNING, "queue_start_v1", "token % 64 = 0", "true",
           arguments={"step": of_theme("beginning").handed_on}),
    Mutant("who came too early is never seen",
           ("beginning", "test_who_came_before_the_queue_begins_is_seen_now_and_then"), "queue_start_v1",
           "token % 64 = 0", "false"),
    Mutant("queues that begin in the future", ("beginning", "test_who_comes_after_the_clock_was_set_back_is_seen"),
           "queue_start_v1", "queue_from > pg_catalog.statement_timestamp()", "false"),
    Mutant("who comes, by a time before it is there", LATE_COMER, "acquire_v1",
           "interlock.now_v1(), acquire_v1.listener", "moment, acquire_v1.listener",
           arguments={"function": "acquire_v1"}),
    Mutant("who comes in a batch, by a time before it is there", LATE_COMER, "acquire_many_v1",
           "t.joined_at + a.request", "moment + a.request", arguments={"function": "acquire_many_v1"}),
    Mutant("nobody dies", ("queue", "test_the_dead_are_passed_over_and_removed"), "waits_v1",
           "NOT pg_catalog.pg_try_advisory_xact_lock_shared(1229737037, listener)", "true"),
    Mutant("looking at the dead alone", ("queue", "test_two_who_look_at_once_do_not_take_each_other_for_the_dead"),
           "waits_v1", "pg_try_advisory_xact_lock_shared", "pg_try_advisory_xact_lock"),
    Mutant("offers for ever", ("queue", "test_an_offer_that_is_not_taken_up_within_a_second_goes_to_the_next"),
           "waits_v1", "offered_at > moment - interval '1 second'", "true"),
    Mutant("offers that are not passed on", ("queue", "test_who_leaves_passes_its_offer_on"), "abandon_many_v1",
           "IF passed_on IS NOT NULL OR freed IS NOT NULL THEN", "IF false THEN"),
    Mutant("calls without end", (
           "queue", "test_whose_turn_it_is_while_the_lease_is_guarded_keeps_it_and_is_not_called_all_the_time"),
           "acquire_many_v1", "w.offered_at <= excluded.seen_at - interval '0.5 seconds'", "w.offered_at IS NOT NULL"),
    Mutant("no hold-back", ("epoch", "test_everyone_is_held_back_for_the_longest_ttl_in_use"), "acquire_many_v1",
           "IF moment < epoch.since + make_interval(secs => longest) THEN", "IF false THEN",
           arguments={"in_a_batch": True}),
    Mutant("careless grants", (
           "costs", "test_who_gets_or_keeps_a_lease_waits_for_the_disk_whatever_the_role_is_set_to"),
           "durably_v1", "= 'off'", "= 'never'", arguments={"set_to": "off", "becomes": "on"}),
    Mutant("a release that makes haste",
           ("costs", "test_a_release_never_makes_a_transaction_of_the_users_own_less_durable"), "release_v1",
           "status := 'released';", "status := 'released'; PERFORM set_config('synchronous_commit', 'off', true);"),
    Mutant("queues that are read to their end", ("costs", "test_a_long_queue_is_not_read_to_its_end"),
           "acquire_v1", "ORDER BY w.enqueued_at,", "ORDER BY w.enqueued_at + interval '0',",
           arguments={"statistics": "none"}),
    Mutant("a failed try that locks the row", ("costs", "test_a_failed_try_writes_nothing"), "acquire_v1",
           "IF FOUND AND wait IS NOT TRUE THEN",
           "PERFORM FROM interlock.lease l WHERE l.name = acquire_v1.name FOR KEY SHARE SKIP LOCKED;\n"
           "    IF until IS NOT NULL AND wait IS NOT TRUE THEN"),
    Mutant("names from anywhere",
           ("privileges", "test_whatever_acts_for_the_owner_finds_names_where_only_the_owner_can_put_them"),
           statement="ALTER FUNCTION interlock.release_v1 RESET search_path"),
    Mutant("functions for everybody", (
           "privileges", "test_a_role_that_was_granted_nothing_can_call_nothing_that_acts_for_the_owner"),
           statement="GRANT EXECUTE ON FUNCTION interlock.break_v1 TO PUBLIC"),
]  # fmt: skip


def run(mutant: Mutant, url: str) -> None:
    """The test that finds it, with the sessions that the fixtures of the same names would give."""
    theme, name = mutant.found_by
    test = getattr(of_theme(theme), name)
    arguments = {"interlock_url": url, **mutant.arguments}
    parameters = inspect.signature(test).parameters
    with ExitStack() as sessions:
        for parameter in set(parameters) & CLIENTS:
            arguments[parameter] = sessions.enter_context(Client(url, parameter))
            arguments[parameter].run("SET statement_timeout = '3s'")
        if "ear" in parameters:
            arguments["ear"].listen(EAR)
        test(**{parameter: arguments[parameter] for parameter in parameters})


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_what_is_broken_is_found(interlock_url: str, mutant: Mutant) -> None:
    """By what the test asserts, or because somebody waits who must not; SQL that does not run at all proves nothing."""
    mutant.apply(interlock_url)
    with pytest.raises((AssertionError, ValueError, QueryCanceled, LockNotAvailable, pytest.fail.Exception)):
        run(mutant, interlock_url)
