"""Twelve sessions acquire, renew, guard, release, break, leave and sweep a few leases, at random and all at once."""

import pytest

from support.lease_disorder import leases_in_any_order, queues_in_any_order
from support.lease_hammer import NAMES, faults, hammer, prepare, untold
from support.postgres import execute
from support.protocol import Client, rewrite
from support.waiting import eventually

GIVES_WAY = "55P03"  # a release or a departure waits for others for 200 ms at most
DEADLOCK = "40P01"


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize(("waits", "grants"), [(0.0, 100), (0.3, 50)], ids=["who only try", "who also wait"])
def test_no_grants_overlap_tokens_increase_and_nothing_deadlocks(
    interlock_url: str, listening: Client, waits: float, grants: int
) -> None:
    prepare(interlock_url)
    counts = hammer(interlock_url, sessions=12, rounds=200, waits=waits)
    assert faults(interlock_url) == {}
    assert {code for code in counts if code[0].isdigit()} <= {GIVES_WAY}
    assert counts["granted"] > grants, counts
    assert all(counts[kind] for kind in ("busy", "released", "written", "lost", "refused")), counts


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize("rounds", [5, 25])
def test_at_rest_every_waiter_that_could_have_a_lease_has_been_notified(
    interlock_url: str, listening: Client, rounds: int
) -> None:
    prepare(interlock_url)
    for _ in range(rounds):
        hammer(interlock_url, sessions=5, rounds=8, waits=0.7)
        assert untold(interlock_url) == []


def test_afterwards_every_lease_can_be_acquired(interlock_url: str, first: Client, listening: Client) -> None:
    prepare(interlock_url)
    hammer(interlock_url, sessions=6, rounds=40, waits=0.5)
    execute(
        interlock_url,
        "SELECT interlock.abandon_many_v1(array_agg(name), array_agg(grant_id), NULL) FROM interlock.waiter",
    )
    eventually(lambda: all(first.ask(name).status == "granted" for name in NAMES[:1]))


def test_batches_of_leases_in_any_order_never_deadlock(interlock_url: str) -> None:
    assert leases_in_any_order(interlock_url) == {}


def test_batches_of_waiters_in_any_order_never_deadlock(interlock_url: str, listening: Client) -> None:
    assert set(queues_in_any_order(interlock_url)) <= {GIVES_WAY}


@pytest.mark.exhaustive
def test_they_would_deadlock_if_rows_were_locked_as_they_come(interlock_url: str) -> None:
    for function, lock in (("renew_many_v1", "NO KEY UPDATE"), ("release_many_v1", "NO KEY UPDATE")):
        rewrite(interlock_url, function, f"ORDER BY l.name FOR {lock} OF l SKIP LOCKED", f"FOR {lock} OF l")
    assert leases_in_any_order(interlock_url)[DEADLOCK] > 0


@pytest.mark.exhaustive
def test_they_would_deadlock_if_queues_were_locked_as_they_come(interlock_url: str, listening: Client) -> None:
    in_order = "SELECT DISTINCT interlock.queue_lock_v1(n.name) AS bucket"
    rewrite(interlock_url, "abandon_many_v1", in_order, in_order.replace("DISTINCT ", ""))
    rewrite(interlock_url, "abandon_many_v1", "ORDER BY 1) AS q", "ORDER BY random()) AS q")
    assert queues_in_any_order(interlock_url)[DEADLOCK] > 0


@pytest.mark.exhaustive
def test_grants_would_overlap_if_rows_were_not_locked(interlock_url: str) -> None:
    rewrite(interlock_url, "acquire_v1", "FOR UPDATE OF l SKIP LOCKED", "")
    rewrite(interlock_url, "acquire_v1", "l.ctid = place\n", "l.name = acquire_v1.name\n")
    prepare(interlock_url)
    hammer(interlock_url, sessions=12, rounds=200, waits=0.0)
    assert "a lease was granted before it had expired" in faults(interlock_url)
