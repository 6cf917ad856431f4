"""What the engine tells its observers: each acquire ends once, each grant ends once, gauges come back to nothing."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import pytest

from interlock import AsyncInterlock, errors
from interlock.coordination.events import (
    Acquired,
    Event,
    HandedOver,
    NotAcquired,
    Released,
    RenewalFailed,
    Renewed,
    Waiting,
)
from support.lease_engine import fail, queue, stop_before, until

E = TypeVar("E", bound=Event)
UNREACHABLE = errors.DatabaseUnreachable("It did not answer in time.")


class Told:
    """A hook that remembers."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def locks(interlock_url: str, told: Told) -> AsyncIterator[AsyncInterlock]:
    locks = AsyncInterlock(interlock_url, replica="one", on_event=told)
    yield locks
    await locks.close()


def outcomes(locks: AsyncInterlock) -> dict[str, int]:
    return {outcome: count for outcome, count in locks.metrics.snapshot().acquires.items() if count}


async def test_a_lease_that_was_free(locks: AsyncInterlock, told: Told) -> None:
    async with locks.lease("feeds") as grant:
        assert locks.metrics.snapshot().held == 1
    acquired, released = told.events
    assert isinstance(acquired, Acquired)
    assert (acquired.name, acquired.holder, acquired.token, acquired.attempts) == ("feeds", "one", grant.token, 1)
    assert isinstance(released, Released)
    assert (released.name, released.token, released.held >= 0) == ("feeds", grant.token, True)
    figures = locks.metrics.snapshot()
    assert (figures.held, figures.releases, figures.hold.count, figures.acquire_wait.count) == (0, 1, 1, 1)


async def test_a_lease_that_was_waited_for(
    locks: AsyncInterlock, others: AsyncInterlock, told: Told, interlock_url: str
) -> None:
    theirs = await others.lease("feeds").acquire()
    waiter = asyncio.ensure_future(locks.lease("feeds").acquire())
    await until(lambda: queue(interlock_url) and told.of(Waiting))
    assert (told.of(Waiting)[0].name, told.of(Waiting)[0].holder) == ("feeds", "two")
    assert locks.metrics.snapshot().waiters == 1
    await theirs.release()
    grant = await waiter
    (acquired,) = told.of(Acquired)
    assert (acquired.token, acquired.attempts > 1, acquired.waited > 0) == (grant.token, True, True)
    figures = locks.metrics.snapshot()
    assert (figures.waiters, figures.waits, figures.held) == (0, 1, 1)


async def test_a_try_for_what_another_has(locks: AsyncInterlock, others: AsyncInterlock, told: Told) -> None:
    await others.lease("feeds").acquire()
    await locks.lease("feeds").try_acquire()
    (not_acquired,) = told.of(NotAcquired)
    assert (not_acquired.reason, not_acquired.holder, not_acquired.attempts) == ("busy", "two", 1)
    assert outcomes(locks) == {"busy": 1}


async def test_a_time_out(locks: AsyncInterlock, others: AsyncInterlock, told: Told) -> None:
    await others.lease("feeds").acquire()
    for timeout in (0, 0.2):
        with pytest.raises(errors.LeaseTimeout):
            await locks.lease("feeds").acquire(timeout)
    assert [event.reason for event in told.of(NotAcquired)] == ["timeout", "timeout"]
    assert outcomes(locks) == {"timeout": 2}
    assert locks.metrics.snapshot().waiters == 0


@pytest.mark.parametrize("method", ["acquire", "try_acquire"])
async def test_a_cancellation(locks: AsyncInterlock, told: Told, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    stop = stop_before(monkeypatch, "acquire")
    asking = asyncio.ensure_future(getattr(locks.lease("feeds"), method)())
    await stop.reached()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    stop.go()
    assert [event.reason for event in told.of(NotAcquired)] == ["cancelled"]
    assert outcomes(locks) == {"cancelled": 1}


@pytest.mark.parametrize("method", ["acquire", "try_acquire"])
async def test_an_error(locks: AsyncInterlock, told: Told, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    fail(monkeypatch, "acquire", UNREACHABLE)
    with pytest.raises(errors.DatabaseUnreachable):
        await getattr(locks.lease("feeds"), method)()
    assert [event.reason for event in told.of(NotAcquired)] == ["error"]
    assert outcomes(locks) == {"error": 1}
    assert locks.metrics.snapshot().database_errors == {"DatabaseUnreachable": 1}


async def test_renewals(locks: AsyncInterlock, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, "renew", UNREACHABLE)
    for number in range(3):
        await locks.lease(f"feed {number}", ttl=30, renew_every=0.1).acquire()
    await until(lambda: any(event.leases == 3 for event in told.of(Renewed)))
    (failed,) = told.of(RenewalFailed)
    assert failed.error is UNREACHABLE
    figures = locks.metrics.snapshot()
    assert figures.renewal_rounds["failed"] == 1
    assert figures.renewed_leases == sum(event.leases for event in told.of(Renewed))


async def test_a_hand_over(locks: AsyncInterlock, others: AsyncInterlock, told: Told, interlock_url: str) -> None:
    grant = await locks.lease("feeds").acquire()
    waiter = asyncio.ensure_future(others.lease("feeds").acquire())
    await until(lambda: queue(interlock_url))
    await grant.hand_over()
    await waiter
    (handed_over,) = told.of(HandedOver)
    assert (handed_over.name, handed_over.token) == ("feeds", grant.token)
    assert told.of(Released) == []
    assert locks.metrics.snapshot().held == 0


async def test_a_hook_that_fails_costs_nothing(interlock_url: str) -> None:
    def hook(event: Event) -> None:
        raise ZeroDivisionError

    async with AsyncInterlock(interlock_url, on_event=hook) as locks:
        async with locks.lease("feeds") as grant:
            grant.check()
        assert locks.metrics.snapshot().hook_errors == 2


async def test_two_root_objects_count_for_themselves(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    async with locks.lease("feeds"):
        assert (locks.metrics.snapshot().held, others.metrics.snapshot().held) == (1, 0)
