"""A name has one owner, in whichever order two transactions do their parts; broken variants are noticed."""

from collections.abc import Callable

import psycopg
import pytest

from interlock.coordination.claims import Claims
from interlock.errors import RetryTransaction
from support import claim_scenarios as scenarios
from support.protocol import rewrite

Scenario = Callable[[Claims, psycopg.Connection, psycopg.Connection], None]


@pytest.mark.parametrize("scenario", scenarios.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_name_has_one_owner(
    scenario: Scenario, names: Claims, one: psycopg.Connection, two: psycopg.Connection
) -> None:
    scenario(names, one, two)


LOCK = "AND NOT interlock.claim_lock_v1(claim_scope, one)"
SHARED = "FOR SHARE SKIP LOCKED"
LATE = "bool_or(NOT s.holds)"
NOTHING_REFUSED = "EXIT WHEN others OR late AND NOT again"

VARIANTS = [
    ("claim_v1", LOCK, "AND false", scenarios.an_open_claim_is_pending),
    ("claim_v1", LOCK, "AND false", scenarios.two_in_opposite_order_do_not_deadlock),
    ("claim_v1", SHARED, "", scenarios.nobody_releases_what_an_open_transaction_relies_on),
    ("claim_v1", SHARED, "", scenarios.an_old_snapshot_does_not_see_its_own_claim_live_on),
    ("claim_v1", SHARED, "FOR SHARE", scenarios.an_open_release_is_taken_until_it_is_committed),
    ("claim_v1", LATE, "NULL", scenarios.a_late_repetition_is_refused),
    ("claim_v1", NOTHING_REFUSED, "others := false", scenarios.several_are_all_or_none),
    (
        "claim_v1",
        "ON CONFLICT (scope, name) WHERE released_at IS NULL DO NOTHING",
        "",
        scenarios.an_old_snapshot_takes_nothing,
    ),
    (
        "release_claim_v1",
        "AND interlock.claim_lock_v1(claim_scope, claim_name)",
        "",
        scenarios.an_old_snapshot_waits_for_no_open_transfer,
    ),
    (
        "release_claim_v1",
        "FOR UPDATE SKIP LOCKED",
        "",
        scenarios.nobody_releases_what_an_open_transaction_relies_on,
    ),
]


@pytest.mark.parametrize(("function", "old", "new", "scenario"), VARIANTS)
def test_a_broken_variant_is_noticed(
    function: str,
    old: str,
    new: str,
    scenario: Scenario,
    interlock_url: str,
    names: Claims,
    one: psycopg.Connection,
    two: psycopg.Connection,
) -> None:
    rewrite(interlock_url, function, old, new)
    with pytest.raises((AssertionError, psycopg.Error, RetryTransaction)):
        scenario(names, one, two)
