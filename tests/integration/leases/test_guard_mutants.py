"""Mutation tests of the guard: each deliberately broken variant of its SQL fails the scenario for it."""

from dataclasses import dataclass

import pytest
from psycopg.errors import SerializationFailure

from support.guard_scenarios import (
    Scenario,
    expired_leases_are_not_guarded,
    renewals_and_the_release_pass_open_guards,
    stale_guards_never_commit,
    the_same_token_is_not_enough,
    thieves_wait_for_the_commit,
)
from support.postgres import execute
from support.protection_scenarios import (
    a_guard_serves_one_transaction,
    checked_early_after_a_savepoint_it_holds_to_the_end,
    checked_early_after_a_savepoint_it_is_checked_again,
    checked_early_it_keeps_thieves_out,
    claims_beside_others_open_nothing,
    claims_with_anothers_token_open_nothing,
    each_table_has_its_own_guard,
    guarded_transactions_commit,
    guards_after_a_savepoint_open_nothing,
    guards_are_good_to_the_end,
    late_claims_open_nothing,
    stale_claims_open_nothing,
)
from support.savepoint_scenarios import (
    guards_after_a_savepoint_are_refused,
    guards_may_be_repeated,
)

pytestmark = pytest.mark.exhaustive


@dataclass(frozen=True)
class Mutant:
    """In the body of `function`, `good` becomes `bad`; those scenarios have to fail."""

    function: str
    good: str
    bad: str
    found_by: tuple[Scenario, ...]


MUTANTS = {
    "plain read": Mutant("guard_v1", "FOR KEY SHARE", "", (stale_guards_never_commit, thieves_wait_for_the_commit)),
    "FOR SHARE": Mutant(
        "guard_v1",
        "FOR KEY SHARE",
        "FOR SHARE",
        (renewals_and_the_release_pass_open_guards, guarded_transactions_commit),
    ),
    "a token that changes without a lock": Mutant(
        "acquire_v1",
        "FOR UPDATE OF l SKIP LOCKED",
        "",
        (stale_guards_never_commit, thieves_wait_for_the_commit),
    ),
    "a token that changes under a weak lock": Mutant(
        "acquire_v1",
        "FOR UPDATE OF l SKIP LOCKED",
        "FOR NO KEY UPDATE OF l SKIP LOCKED",
        (stale_guards_never_commit, thieves_wait_for_the_commit),
    ),
    "a batch of tokens that change under a weak lock": Mutant(
        "acquire_many_v1",
        "FOR UPDATE OF l SKIP LOCKED",
        "FOR NO KEY UPDATE OF l SKIP LOCKED",
        (stale_guards_never_commit, thieves_wait_for_the_commit),
    ),
    "a release that changes the token": Mutant(
        "release_v1",
        "FOR NO KEY UPDATE SKIP LOCKED",
        "FOR UPDATE SKIP LOCKED",
        (renewals_and_the_release_pass_open_guards,),
    ),
    "without the grant": Mutant("guard_v1", "AND l.grant_id = lease_grant", "", (the_same_token_is_not_enough,)),
    "without the token": Mutant(
        "guard_v1", "AND l.token = lease_token AND l.grant_id = lease_grant", "", (stale_guards_never_commit,)
    ),
    "without expiry": Mutant(
        "guard_v1",
        "until <= interlock.now_v1()",
        "false",
        (expired_leases_are_not_guarded,),
    ),
    "expiry by the time at which the transaction began": Mutant(
        "guard_v1",
        "until <= interlock.now_v1()",
        "until <= now()",
        (expired_leases_are_not_guarded,),
    ),
    "expiry at one level only": Mutant(
        "guard_v1",
        "left(current_setting('transaction_isolation'), 4) = 'read'",
        "current_setting('transaction_isolation') = 'read committed'",
        (expired_leases_are_not_guarded,),
    ),
    "without a look for savepoints": Mutant(
        "guard_v1",
        "IF locker <> pg_current_xact_id()::xid",
        "IF false",
        (guards_after_a_savepoint_are_refused,),
    ),
    "a look for savepoints that knows no groups of lockers": Mutant(
        "guard_v1",
        "OR (cardinality(parts) > 0 AND NOT interlock.locked_here_v1(locker))",
        "",
        (guards_after_a_savepoint_are_refused,),
    ),
    "a look for savepoints that takes each group for a stranger": Mutant(
        "locked_here_v1", "RETURN EXISTS (", "RETURN false AND EXISTS (", (guards_may_be_repeated,)
    ),
    "a look for savepoints that takes each group for its own": Mutant(
        "locked_here_v1", "RETURN EXISTS (", "RETURN true OR EXISTS (", (guards_after_a_savepoint_are_refused,)
    ),
    "a guard that stays in the session": Mutant(
        "guard_v1",
        "jsonb_build_array(lease_token, lease_grant)))::text, true)",
        "jsonb_build_array(lease_token, lease_grant)))::text, false)",
        (a_guard_serves_one_transaction,),
    ),
    "a guard in place of that of another lease": Mutant(
        "guard_v1", "current_setting('interlock_guard.carried', true)", "''", (each_table_has_its_own_guard,)
    ),
    "a trigger that asks for no guard": Mutant(
        "guarded_v1",
        "ELSIF guard IS NULL THEN",
        "ELSIF guard IS NULL THEN RETURN NULL;",
        (a_guard_serves_one_transaction, each_table_has_its_own_guard, guards_after_a_savepoint_open_nothing),
    ),
    "a trigger that believes": Mutant(
        "guarded_v1",
        "PERFORM interlock.guard_v1(",
        "PERFORM concat(",
        (stale_claims_open_nothing, late_claims_open_nothing),
    ),
    "a trigger that guards anew": Mutant(
        "guarded_v1",
        "IF coalesce(locker <> pg_current_xact_id()::xid AND NOT interlock.locked_here_v1(locker), true) THEN",
        "IF true THEN",
        (guards_are_good_to_the_end,),
    ),
    "a trigger that takes anybody's lock for its own": Mutant(
        "guarded_v1",
        "IF coalesce(locker <> pg_current_xact_id()::xid AND NOT interlock.locked_here_v1(locker), true) THEN",
        "IF coalesce(locker = '0'::xid, true) THEN",
        (claims_beside_others_open_nothing,),
    ),
    "a trigger that only reads": Mutant(
        "guarded_v1",
        "FOR KEY SHARE",
        "",
        (
            stale_claims_open_nothing,
            checked_early_it_keeps_thieves_out,
            checked_early_after_a_savepoint_it_is_checked_again,
            checked_early_after_a_savepoint_it_holds_to_the_end,
        ),
    ),
    "a trigger that shuts the holder out": Mutant(
        "guarded_v1", "FOR KEY SHARE", "FOR SHARE", (checked_early_it_keeps_thieves_out,)
    ),
    "a trigger without the token": Mutant(
        "guarded_v1",
        "l.token = (guard ->> 0)::bigint AND l.grant_id = (guard ->> 1)::uuid",
        "guard IS NOT NULL",
        (stale_claims_open_nothing,),
    ),
    "a trigger without the grant": Mutant(
        "guarded_v1", "AND l.grant_id = (guard ->> 1)::uuid", "", (claims_with_anothers_token_open_nothing,)
    ),
    "a trigger without expiry": Mutant(
        "guarded_v1", "l.expires_at > interlock.now_v1()", "true", (late_claims_open_nothing,)
    ),
    "a trigger with expiry by the time at which the transaction began": Mutant(
        "guarded_v1", "l.expires_at > interlock.now_v1()", "l.expires_at > now()", (late_claims_open_nothing,)
    ),
    "a trigger with expiry at one level only": Mutant(
        "guarded_v1",
        "left(current_setting('transaction_isolation'), 4) <> 'read'",
        "current_setting('transaction_isolation') <> 'read committed'",
        (late_claims_open_nothing,),
    ),
    "a trigger that locks what has expired, and finds it locked": Mutant(
        "guarded_v1",
        "FOR KEY SHARE;\n    IF FOUND THEN",
        "FOR KEY SHARE; PERFORM FROM interlock.lease l WHERE l.name = TG_ARGV[0] FOR KEY SHARE; IF false THEN",
        (late_claims_open_nothing,),
    ),
}


def apply_mutant(url: str, mutant: Mutant) -> None:
    source = (
        "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'interlock'::regnamespace AND proname = %s"
    )
    definition = str(execute(url, source, mutant.function)[0][0]).replace('"interlock".', "interlock.")
    assert definition.count(mutant.good) == 1
    execute(url, definition.replace(mutant.good, mutant.bad))


@pytest.mark.parametrize(
    ("name", "scenario"),
    [(name, scenario) for name, mutant in MUTANTS.items() for scenario in mutant.found_by],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_a_mutant_is_detected(interlock_url: str, name: str, scenario: Scenario) -> None:
    apply_mutant(interlock_url, MUTANTS[name])
    with pytest.raises((AssertionError, SerializationFailure)):
        scenario(interlock_url)
