"""Twelve sessions that take, renew, guard, release, break, leave and sweep a few leases, at random and all at once."""

import pytest

from support.lease_hammer import NAMES, faults, hammer
from support.postgres import execute
from support.protocol import Client
from support.waiting import eventually

GIVES_WAY = "55P03"  # whoever frees or leaves waits for others for 200 ms at most


@pytest.mark.parametrize(("waits", "grants"), [(0.0, 100), (0.3, 50)], ids=["who only try", "who also wait"])
def test_no_grant_overlaps_no_token_goes_back_and_nothing_deadlocks(
    interlock_url: str, ear: Client, waits: float, grants: int
) -> None:
    counts = hammer(interlock_url, sessions=12, rounds=200, waits=waits)
    assert faults(interlock_url) == {}
    assert {code for code in counts if code[0].isdigit()} <= {GIVES_WAY}
    assert counts["granted"] > grants, counts
    assert all(counts[kind] for kind in ("busy", "released", "written", "lost", "refused")), counts


def test_afterwards_every_lease_can_be_had(interlock_url: str, first: Client, ear: Client) -> None:
    hammer(interlock_url, sessions=6, rounds=40, waits=0.5)
    execute(interlock_url, "SELECT interlock.abandon_many_v1(array_agg(grant_id), NULL) FROM interlock.waiter")
    eventually(lambda: all(first.ask(name).status == "granted" for name in NAMES[:1]))
