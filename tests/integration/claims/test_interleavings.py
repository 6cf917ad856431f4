"""A name has one owner in every interleaving of two transactions; broken variants are detected."""

from collections.abc import Callable

import psycopg
import pytest

from interlock.coordination.claims import Claims
from interlock.errors import RetryTransaction
from support import claim_scenarios as scenarios
from support.protocol import rewrite

Scenario = Callable[[Claims, psycopg.Connection, psycopg.Connection], None]


@pytest.fixture(autouse=True)
def _waits_for_each_other_end(one: psycopg.Connection, two: psycopg.Connection) -> None:
    """Both are in one thread: a statement that waits for the other transaction would never return."""
    for connection in (one, two):
        connection.execute("SET lock_timeout = '200ms'")
        connection.commit()


@pytest.mark.exhaustive(beyond=4)
@pytest.mark.parametrize("scenario", scenarios.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_name_has_one_owner(
    scenario: Scenario, names: Claims, one: psycopg.Connection, two: psycopg.Connection
) -> None:
    scenario(names, one, two)


WHOLE, USUAL, RELEASE = "claim_v1", "claim_one_v1", "release_claim_v1"

NO_LOCK = {
    WHOLE: ("AND NOT interlock.claim_lock_v1(claim_scope, one)", "AND false"),
    USUAL: ("AND interlock.claim_lock_v1(claim_scope, claim_name)", ""),
}
NOT_SHARED = {WHOLE: ("FOR SHARE SKIP LOCKED", "")}
SHARED_AFTER_A_WAIT = {WHOLE: ("FOR SHARE SKIP LOCKED", "FOR SHARE")}
WHATEVER_WAS_RELEASED = {WHOLE: ("bool_or(NOT s.holds)", "NULL")}
WHATEVER_IS_ANOTHERS = {WHOLE: ("EXIT WHEN others OR late AND NOT again", "others := false")}
CONFLICT = "ON CONFLICT (scope, name) WHERE released_at IS NULL DO NOTHING"
RELEASE_WITHOUT_LOCK = {RELEASE: ("AND interlock.claim_lock_v1(claim_scope, claim_name)", "")}
RELEASE_AFTER_A_WAIT = {RELEASE: ("FOR UPDATE SKIP LOCKED", "")}

VARIANTS: list[tuple[dict[str, tuple[str, str]], Scenario]] = [
    (NO_LOCK, scenarios.an_open_claim_is_pending),
    (NO_LOCK, scenarios.two_in_opposite_order_do_not_deadlock),
    (NOT_SHARED, scenarios.nobody_releases_what_an_open_transaction_relies_on),
    (NOT_SHARED, scenarios.of_several_what_is_ones_own_is_told_and_kept),
    (NOT_SHARED, scenarios.an_old_snapshot_does_not_see_its_own_claim_live_on),
    (SHARED_AFTER_A_WAIT, scenarios.an_open_release_is_taken_until_it_is_committed),
    (WHATEVER_WAS_RELEASED, scenarios.a_late_repetition_is_refused),
    (WHATEVER_IS_ANOTHERS, scenarios.several_are_all_or_none),
    ({WHOLE: (CONFLICT, ""), USUAL: (CONFLICT, "")}, scenarios.an_old_snapshot_takes_nothing),
    (RELEASE_WITHOUT_LOCK, scenarios.an_old_snapshot_waits_for_no_open_transfer),
    (RELEASE_AFTER_A_WAIT, scenarios.nobody_releases_what_an_open_transaction_relies_on),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("changes", "scenario"), VARIANTS)
def test_a_broken_variant_is_detected(
    changes: dict[str, tuple[str, str]],
    scenario: Scenario,
    interlock_url: str,
    names: Claims,
    one: psycopg.Connection,
    two: psycopg.Connection,
) -> None:
    for function, (old, new) in changes.items():
        rewrite(interlock_url, function, old, new)
    with pytest.raises((AssertionError, psycopg.Error, RetryTransaction)):
        scenario(names, one, two)
