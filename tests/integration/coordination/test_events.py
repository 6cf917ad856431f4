"""Events of the engine: each acquire ends once, each grant ends once, and gauges return to 0."""

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


class RecordingHook:
    """A hook that keeps the events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def hook() -> RecordingHook:
    return RecordingHook()


@pytest.fixture
async def locks(interlock_url: str, hook: RecordingHook) -> AsyncIterator[AsyncInterlock]:
    locks = AsyncInterlock(interlock_url, replica="one", on_event=hook)
    yield locks
    await locks.close()


def outcomes(locks: AsyncInterlock) -> dict[str, int]:
    return {outcome: count for outcome, count in locks.metrics.snapshot().acquires.items() if count}


async def test_acquiring_a_free_lease(locks: AsyncInterlock, hook: RecordingHook) -> None:
    async with locks.lease("feeds") as grant:
        assert locks.metrics.snapshot().held == 1
    acquired, released = hook.events
    assert isinstance(acquired, Acquired)
    assert (acquired.name, acquired.holder, acquired.token, acquired.attempts) == ("feeds", "one", grant.token, 1)
    assert isinstance(released, Released)
    assert (released.name, released.token, released.held >= 0) == ("feeds", grant.token, True)
    figures = locks.metrics.snapshot()
    assert (figures.held, figures.releases, figures.hold.count, figures.acquire_wait.count) == (0, 1, 1, 1)


async def test_acquiring_after_a_wait(
    locks: AsyncInterlock, others: AsyncInterlock, hook: RecordingHook, interlock_url: str
) -> None:
    theirs = await others.lease("feeds").acquire()
    waiter = asyncio.ensure_future(locks.lease("feeds").acquire())
    await until(lambda: queue(interlock_url) and hook.of(Waiting))
    assert (hook.of(Waiting)[0].name, hook.of(Waiting)[0].holder) == ("feeds", "two")
    assert locks.metrics.snapshot().waiters == 1
    await theirs.release()
    grant = await waiter
    (acquired,) = hook.of(Acquired)
    assert (acquired.token, acquired.attempts > 1, acquired.waited > 0) == (grant.token, True, True)
    figures = locks.metrics.snapshot()
    assert (figures.waiters, figures.waits, figures.held) == (0, 1, 1)


async def test_a_try_for_a_held_lease(locks: AsyncInterlock, others: AsyncInterlock, hook: RecordingHook) -> None:
    await others.lease("feeds").acquire()
    await locks.lease("feeds").try_acquire()
    (not_acquired,) = hook.of(NotAcquired)
    assert (not_acquired.reason, not_acquired.holder, not_acquired.attempts) == ("busy", "two", 1)
    assert outcomes(locks) == {"busy": 1}


async def test_a_timeout(locks: AsyncInterlock, others: AsyncInterlock, hook: RecordingHook) -> None:
    await others.lease("feeds").acquire()
    for timeout in (0, 0.2):
        with pytest.raises(errors.LeaseTimeout):
            await locks.lease("feeds").acquire(timeout)
    assert [event.reason for event in hook.of(NotAcquired)] == ["timeout", "timeout"]
    assert outcomes(locks) == {"timeout": 2}
    assert locks.metrics.snapshot().waiters == 0


@pytest.mark.parametrize("method", ["acquire", "try_acquire"])
async def test_a_cancellation(
    locks: AsyncInterlock, hook: RecordingHook, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    stop = stop_before(monkeypatch, "acquire")
    asking = asyncio.ensure_future(getattr(locks.lease("feeds"), method)())
    await stop.reached()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    stop.go()
    assert [event.reason for event in hook.of(NotAcquired)] == ["cancelled"]
    assert outcomes(locks) == {"cancelled": 1}


@pytest.mark.parametrize("method", ["acquire", "try_acquire"])
async def test_an_error(
    locks: AsyncInterlock, hook: RecordingHook, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    fail(monkeypatch, "acquire", UNREACHABLE)
    with pytest.raises(errors.DatabaseUnreachable):
        await getattr(locks.lease("feeds"), method)()
    assert [event.reason for event in hook.of(NotAcquired)] == ["error"]
    assert outcomes(locks) == {"error": 1}
    assert locks.metrics.snapshot().database_errors == {"DatabaseUnreachable": 1}


async def test_renewals(locks: AsyncInterlock, hook: RecordingHook, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, "renew", UNREACHABLE)
    for number in range(3):
        await locks.lease(f"feed {number}", ttl=30, renew_every=0.1).acquire()
    await until(lambda: any(event.leases == 3 for event in hook.of(Renewed)))
    (failed,) = hook.of(RenewalFailed)
    assert failed.error is UNREACHABLE
    figures = locks.metrics.snapshot()
    assert figures.renewal_rounds["failed"] == 1
    assert figures.renewed_leases == sum(event.leases for event in hook.of(Renewed))


async def test_a_hand_over(
    locks: AsyncInterlock, others: AsyncInterlock, hook: RecordingHook, interlock_url: str
) -> None:
    grant = await locks.lease("feeds").acquire()
    waiter = asyncio.ensure_future(others.lease("feeds").acquire())
    await until(lambda: queue(interlock_url))
    await grant.hand_over()
    await waiter
    (handed_over,) = hook.of(HandedOver)
    assert (handed_over.name, handed_over.token) == ("feeds", grant.token)
    assert hook.of(Released) == []
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
