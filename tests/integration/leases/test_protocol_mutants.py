"""Mutation tests of the lease protocol: each deliberately broken variant of the SQL fails a test."""

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
from support.protocol import JUST_QUEUED, LISTENER, Client, rewrite

pytestmark = pytest.mark.exhaustive


@dataclass(frozen=True)
class Mutant:
    """In the body of `function`, `good` becomes `bad`, or `statement` is run; the test has to fail."""

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
SAW_IT_FREE = ("grants", "test_a_request_that_saw_it_free_but_comes_second_gets_nothing")
WRONG = ("grants", "test_a_wrong_token_or_grant_id_changes_nothing")
STALE = ("grants", "test_a_former_holder_changes_nothing_of_its_successors")
LATE = ("grants", "test_an_expired_lease_cannot_be_renewed_even_if_it_is_free")
RESEND = ("grants", "test_a_resend_finds_its_own_grant_and_the_remaining_time")
LOCKED = ("batches", "test_a_locked_row_delays_no_other")
RENEWALS = ("batches", "test_renewals_and_releases_of_a_batch_skip_a_locked_row")
PATIENCE = ("batches", "test_a_renewal_does_not_change_the_transactions_lock_timeout")
JUST_COMING = ("wake_ups", "test_a_release_waits_for_an_arriving_waiter_and_notifies_it")
TOKENS = ("tokens", "test_a_token_is_higher_than_every_one_before")

CLIENTS = {"first", "second", "third", "listening"}
COMING_IN_A_BATCH = {"function": "acquire_many_v1", "before": "WITH ahead"}


def alone(client: Client, name: str = "feeds") -> Any:
    return client.ask(name)


def in_a_batch(client: Client, name: str = "feeds") -> Any:
    return client.ask_many([name])[0]


def happening(name: str) -> dict[str, Any]:
    return {"happens": getattr(of_theme("tokens"), name)}


@cache
def of_theme(theme: str) -> ModuleType:
    """Returns the module with the tests of one theme, in this directory."""
    path = Path(__file__).with_name(f"test_protocol_{theme}.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BEGINNING = ("old_snapshots", "test_former_waiters_are_not_read_again")
LATE_COMER = ("old_snapshots", "test_a_slow_arrival_does_not_come_before_the_queue_begins")
ITSELF = ("hand_over", "test_a_waiter_does_not_succeed_itself")
HAS_LOST_IT = ("hand_over", "test_the_release_of_a_lost_grant_leaves_the_queue_and_waits_for_no_one")

MUTANTS = [
    Mutant("acquire without the row lock", SAW_IT_FREE, "acquire_v1", FREE, "", arguments={"function": "acquire_v1"}),
    Mutant(
        "acquire_many without the row lock", SAW_IT_FREE, "acquire_many_v1", FREE, "",
        arguments={"function": "acquire_many_v1"},
    ),
    Mutant(
        "acquire of a held lease", ("grants", "test_a_lease_is_free_from_the_moment_it_expires_and_not_before"),
        "acquire_v1", "AND l.expires_at <= moment AND e.only_row", "AND e.only_row",
        arguments={"ask": alone},
    ),
    Mutant(
        "acquire by the time before it had locked the row", ("grants", "test_a_grant_counts_from_its_lock_on_the_row"),
        "acquire_v1", "        moment := interlock.now_v1();\n", "",
    ),
    Mutant(
        "acquire that waits for locked rows", ("grants", "test_a_request_during_another_grant_gets_nothing"),
        "acquire_v1", FREE, "FOR UPDATE OF l", arguments={"ask": alone},
    ),
    Mutant("a batch that waits for locked rows", LOCKED, "acquire_many_v1", FREE, "FOR UPDATE OF l",
           arguments={"lock": "FOR UPDATE"}),
    Mutant("renewals that wait for locked rows", RENEWALS, "renew_many_v1", "FOR NO KEY UPDATE OF l SKIP LOCKED",
           "FOR NO KEY UPDATE OF l"),
    Mutant("renewals that do not give up a locked row", RENEWALS, "renew_many_v1", "'1ms'", "'0'"),
    Mutant("renewals that report a repetition as missing", RENEWALS, "renew_many_v1",
           "WHERE l.renewed_at IS DISTINCT FROM moment", ""),
    Mutant("renewals that change the lock_timeout", PATIENCE, "renew_many_v1",
           "PERFORM set_config('lock_timeout', patience, true);", ""),
    Mutant("releases that wait for locked rows", RENEWALS, "release_many_v1", "FOR NO KEY UPDATE OF l SKIP LOCKED",
           "FOR NO KEY UPDATE OF l"),
    Mutant(
        "one name granted twice in a batch", ("batches", "test_of_several_requests_for_one_name_the_first_gets_it"),
        "acquire_many_v1", "SELECT DISTINCT ON (a.name) a.name, a.request", "SELECT a.name, a.request",
    ),
    Mutant("a resend that does not find its grant", RESEND, "acquire_many_v1",
           "WHEN l.expires_at > moment AND l.grant_id = a.grant_id", "WHEN false", arguments={"ask": alone}),
    Mutant("release by holder", WRONG, "release_v1",
           "AND l.token = release_v1.token AND l.grant_id = release_v1.grant_id\n     ORDER", "ORDER"),
    Mutant("release by token only", WRONG, "release_v1", "AND l.grant_id = release_v1.grant_id\n     ORDER", "ORDER"),
    Mutant("release of a batch by grant_id only", WRONG, "release_many_v1", "l.token = a.token AND ", ""),
    Mutant("renewal by holder", STALE, "renew_many_v1", RENEWED, "true"),
    Mutant("renewal by grant_id only", WRONG, "renew_many_v1", RENEWED,
           "uuid_send(l.grant_id) = substring(grants, 24 * a.request::integer - 15, 16)"),
    Mutant("renewal of an expired lease", LATE, "renew_many_v1", "l.name = a.name AND l.expires_at > moment",
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
           ("tokens", "test_a_name_that_is_used_while_it_is_swept_gets_a_higher_token"),
           "register_v1", "PERFORM pg_advisory_xact_lock_shared(1229737038, 0);", ""),
    Mutant("leases far in the future, judged by an old time",
           ("grants", "test_a_slow_request_does_not_shorten_a_lease_that_was_renewed_meanwhile"),
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
           ("wake_ups", "test_a_waiter_that_leaves_while_it_is_notified_passes_the_notification_on"),
           "abandon_many_v1", "pg_advisory_xact_lock(1229737036, q.bucket)", "q.bucket",
           arguments={"function": "offer_v1", "before": "RETURN QUERY"}),
    Mutant("breaking without the queue's lock",
           ("wake_ups", "test_a_waiter_that_arrives_while_a_lease_is_broken_gets_changing"), "break_v1",
           QUEUE.format("lease_name"), "'no lock'"),
    Mutant("every waiter before the first taken for dead",
           ("wake_ups", "test_an_earlier_arrival_that_commits_late_keeps_its_position"),
           "offer_v1", "AND NOT interlock.waits_v1(w.listener, w.seen_at, w.offered_at, moment)", ""),
    Mutant("tries that overtake", ("queue", "test_a_try_never_overtakes_a_waiter"), "acquire_v1",
           "coalesce(acquire_v1.grant_id = (", "coalesce(true OR acquire_v1.grant_id = (", arguments={"is_free": True}),
    Mutant("no waiter is notified", ("queue", "test_a_release_notifies_only_the_first_waiter"), "release_v1",
           "pg_notify('interlock_' || ear, offered::text)", "'none'"),
    Mutant("the newest waiter is notified", ("queue", "test_waiters_are_served_in_the_order_of_arrival"), "release_v1",
           "ORDER BY w.enqueued_at, w.grant_id LIMIT 1", "ORDER BY w.enqueued_at DESC LIMIT 1"),
    Mutant("the first waiter succeeds itself", ITSELF, "release_v1",
           "EXIT WHEN first.grant_id IS DISTINCT FROM release_v1.grant_id;", "EXIT;",
           arguments={"before": True, "direct": True}),
    Mutant("the next waiter succeeds itself", ITSELF, "release_v1", "IN (first.grant_id, release_v1.grant_id)",
           "= first.grant_id", arguments={"before": False, "direct": True}),
    Mutant("the notified waiter succeeds itself", ITSELF, "release_v1", "IF first.grant_id IS NOT NULL THEN",
           "IF false THEN", arguments={"before": False, "direct": False}),
    Mutant("the release of a lost grant waits for its queue entry", HAS_LOST_IT, "release_v1",
           "v.name = release_v1.name FOR UPDATE SKIP LOCKED", "v.name = release_v1.name FOR UPDATE"),
    Mutant("the release of a lost grant leaves all queues",
           HAS_LOST_IT, "release_v1", "AND v.name = release_v1.name", ""),
    Mutant("a hand-over despite a guard",
           ("hand_over", "test_a_guarded_lease_is_not_handed_over_before_the_transaction_ends"), "release_v1",
           "FOR UPDATE OF l SKIP LOCKED", ""),
    Mutant("a hand-over after a promotion",
           ("hand_over", "test_after_a_promotion_nothing_is_handed_over"), "release_v1",
           "e.timeline = interlock.timeline_v1()", "true"),
    Mutant("a release that searches its lease again",
           ("costs", "test_the_row_of_a_lease_is_searched_once"), "release_v1",
           "l.ctid = place", "l.name = release_v1.name", arguments={"step": of_theme("costs").released}),
    Mutant("queues that are read from the beginning", BEGINNING, "queue_start_v1", "token % 64 = 0", "true",
           arguments={"step": of_theme("old_snapshots").handed_over}),
    Mutant("a waiter from before the queue begins is never seen",
           ("old_snapshots", "test_a_waiter_from_before_the_queue_begins_is_seen_now_and_then"), "queue_start_v1",
           "token % 64 = 0", "false"),
    Mutant("queues that begin in the future",
           ("old_snapshots", "test_a_waiter_that_comes_after_the_clock_was_set_back_is_seen"),
           "queue_start_v1", "queue_from > pg_catalog.statement_timestamp()", "false"),
    Mutant("an arrival by a time before its statement", LATE_COMER, "acquire_v1",
           "interlock.now_v1(), acquire_v1.listener", "moment, acquire_v1.listener",
           arguments={"function": "acquire_v1"}),
    Mutant("an arrival in a batch by a time before its statement", LATE_COMER, "acquire_many_v1",
           "t.joined_at + a.request", "moment + a.request", arguments={"function": "acquire_many_v1"}),
    Mutant("no waiter dies", ("queue", "test_dead_waiters_are_skipped_and_removed"), "waits_v1",
           "NOT pg_catalog.pg_try_advisory_xact_lock_shared(1229737037, listener)", "true"),
    Mutant("probes that exclude each other",
           ("queue", "test_two_concurrent_probes_do_not_take_each_other_for_a_live_listener"),
           "waits_v1", "pg_try_advisory_xact_lock_shared", "pg_try_advisory_xact_lock"),
    Mutant("offers without an end", ("queue", "test_an_offer_that_is_not_accepted_within_a_second_goes_to_the_next"),
           "waits_v1", "offered_at > moment - interval '1 second'", "true"),
    Mutant("offers that are not passed on",
           ("queue", "test_a_departing_waiter_passes_its_offer_to_the_next"), "abandon_many_v1",
           "IF passed_on IS NOT NULL OR freed IS NOT NULL THEN", "IF false THEN"),
    Mutant("notifications without an end", (
           "queue", "test_the_first_waiter_of_a_guarded_lease_keeps_its_turn_and_is_not_notified_repeatedly"),
           "acquire_many_v1", "w.offered_at <= excluded.seen_at - interval '0.5 seconds'", "w.offered_at IS NOT NULL"),
    Mutant("no delay after a promotion",
           ("epoch", "test_every_request_is_delayed_for_the_longest_ttl_in_use"), "acquire_many_v1",
           "IF moment < epoch.since + make_interval(secs => longest) THEN", "IF false THEN",
           arguments={"in_a_batch": True}),
    Mutant("grants that do not wait for the disk", (
           "costs", "test_grants_and_renewals_wait_for_the_disk_with_any_setting_of_the_role"),
           "durably_v1", "= 'off'", "= 'never'", arguments={"set_to": "off", "becomes": "on"}),
    Mutant("a release that does not wait for the disk",
           ("costs", "test_a_release_never_makes_the_users_transaction_less_durable"), "release_v1",
           "status := 'released';", "status := 'released'; PERFORM set_config('synchronous_commit', 'off', true);"),
    Mutant("queues that are read completely", ("costs", "test_a_long_queue_is_not_read_completely"),
           "acquire_v1", "ORDER BY w.enqueued_at,", "ORDER BY w.enqueued_at + interval '0',",
           arguments={"statistics": "none"}),
    Mutant("a failed try that locks the row", ("costs", "test_a_failed_try_writes_nothing"), "acquire_v1",
           "IF FOUND AND wait IS NOT TRUE THEN",
           "PERFORM FROM interlock.lease l WHERE l.name = acquire_v1.name FOR KEY SHARE SKIP LOCKED;\n"
           "    IF until IS NOT NULL AND wait IS NOT TRUE THEN"),
    Mutant("objects from any schema",
           ("privileges", "test_functions_that_act_for_the_owner_search_only_the_owners_schemas"),
           statement="ALTER FUNCTION interlock.release_v1 RESET search_path"),
    Mutant("functions for every role", (
           "privileges", "test_a_role_without_grants_cannot_call_functions_that_act_for_the_owner"),
           statement="GRANT EXECUTE ON FUNCTION interlock.break_v1 TO PUBLIC"),
]  # fmt: skip


def run(mutant: Mutant, url: str) -> None:
    """Run the test for the mutant, with the sessions that the fixtures of those names would provide."""
    theme, name = mutant.found_by
    test = getattr(of_theme(theme), name)
    arguments = {"interlock_url": url, **mutant.arguments}
    parameters = inspect.signature(test).parameters
    with ExitStack() as sessions:
        for parameter in set(parameters) & CLIENTS:
            arguments[parameter] = sessions.enter_context(Client(url, parameter))
            arguments[parameter].run("SET statement_timeout = '3s'")
        if "listening" in parameters:
            arguments["listening"].listen(LISTENER)
        test(**{parameter: arguments[parameter] for parameter in parameters})


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_a_mutant_is_detected(interlock_url: str, mutant: Mutant) -> None:
    """By an assertion of the test, or by a wait that must not be. SQL that does not run at all proves nothing."""
    mutant.apply(interlock_url)
    with pytest.raises((AssertionError, ValueError, QueryCanceled, LockNotAvailable, pytest.fail.Exception)):
        run(mutant, interlock_url)
