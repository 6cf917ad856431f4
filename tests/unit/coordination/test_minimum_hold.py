"""The last renewal of a lease that outlives its work: its ttl, and what happens if it fails."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from interlock import process
from interlock.clock import boottime
from interlock.coordination.engine import minimum_hold
from interlock.coordination.engine.held import HeldGrants
from interlock.coordination.engine.minimum_hold import MinimumHolds
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.times import LeaseTiming
from interlock.coordination.observation.observer import Observer
from interlock.errors import DatabaseUnreachable
from interlock.stores.leases import GrantIdentity, RenewAnswer

DONE = RenewAnswer([], [], 0.0, 1)
LOCKED = RenewAnswer([], [0], 0.0, 1)
LOST = RenewAnswer([0], [], 0.0, 1)


class Store:
    """Answers renewals in this order, and records their ttls."""

    def __init__(self, *answers: RenewAnswer | Exception) -> None:
        self.ttls: list[float] = []
        self._answers = list(answers)

    async def renew(self, grants: Sequence[GrantIdentity], timeout: float) -> RenewAnswer:
        [grant] = grants
        self.ttls.append(grant.ttl)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Case:
    def __init__(self, *answers: RenewAnswer | Exception, held_for: float = 1.0) -> None:
        self.store = Store(*answers)
        observer = Observer("web-1")
        self.held = HeldGrants(observer)
        engine = SimpleNamespace(pid=process.pid, closed=False)
        self.grant = AsyncGrant(cast(Any, engine), "feeds", 17, uuid4(), LeaseTiming.of(60), None)
        self.grant.acquired_at = boottime() - held_for
        self.grant.trusted_until = boottime() + 59
        self.held.add(self.grant)
        self.holds = MinimumHolds(cast(Any, self.store), observer, self.held, cast(Any, None))


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minimum_hold, "_PAUSE", 0.0)


async def test_the_last_renewal_is_for_the_rest_of_the_time() -> None:
    case = Case(DONE, held_for=1.0)
    await case.holds.end(case.grant, 10.0)
    [ttl] = case.store.ttls
    assert 9.0 <= ttl < 9.1
    assert case.grant.is_released
    assert len(case.held) == 0


async def test_the_shortest_rest_is_a_ttl_that_stores_accept() -> None:
    case = Case(DONE, held_for=9.98)
    await case.holds.end(case.grant, 10.0)
    assert case.store.ttls == [0.1]


async def test_after_the_minimum_the_grant_is_left_to_be_released() -> None:
    case = Case(held_for=10.1)
    await case.holds.end(case.grant, 10.0)
    assert not case.grant.ended
    assert case.store.ttls == []


async def test_a_lost_grant_is_left_to_be_released() -> None:
    case = Case()
    case.grant.finish("broken")
    await case.holds.end(case.grant, 10.0)
    assert case.store.ttls == []


@pytest.mark.parametrize("failure", [LOCKED, DatabaseUnreachable("No answer.")])
async def test_a_renewal_that_failed_is_sent_again_for_what_is_left_then(failure: RenewAnswer | Exception) -> None:
    case = Case(failure, DONE)
    await case.holds.end(case.grant, 10.0)
    first, second = case.store.ttls
    assert second <= first
    assert case.grant.is_released


async def test_a_store_that_does_not_answer_leaves_the_longer_expiry_of_the_renewal_before() -> None:
    case = Case(*[DatabaseUnreachable("No answer.")] * 5)
    await case.holds.end(case.grant, 10.0)
    assert len(case.store.ttls) == 5
    assert case.grant.is_released


async def test_a_refused_renewal_means_that_the_lease_was_lost() -> None:
    case = Case(LOST)
    await case.holds.end(case.grant, 10.0)
    assert case.grant.lost
    assert not case.grant.is_released
