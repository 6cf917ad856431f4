"""The wait queue: no wake-up is lost, one waiter always polls, and the pauses have a limit."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any, cast
from uuid import uuid4

import pytest

from interlock.coordination.engine import queue
from interlock.coordination.engine.queue import QueueEntry, WaitQueue
from interlock.stores.leases import AcquireAnswer, AcquireRequest, AcquireStatus, HandedGrant, LeaseStore, OnTurn


class Store:
    """Can notify waiters, or not; counts its subscriptions."""

    def __init__(self, *, can_notify: bool = True) -> None:
        self.can_notify = can_notify
        self.opened = self.closed = 0
        self.end: Callable[[], None] = lambda: None
        self.opening = asyncio.Event()
        self.opening.set()

    async def subscribe(self, on_turn: OnTurn, on_end: Callable[[], None]) -> bool:
        self.opened += 1
        self.end = on_end
        await self.opening.wait()
        return self.can_notify

    async def unsubscribe(self) -> None:
        self.closed += 1


def queue_of(store: Store) -> WaitQueue:
    return WaitQueue(cast(LeaseStore, store))


def an_entry() -> QueueEntry:
    return QueueEntry("feeds", uuid4())


def enter(wait_queue: WaitQueue, name: str = "feeds") -> QueueEntry:
    return wait_queue.enter(AcquireRequest(name, uuid4(), 30, None, wait=True))


def answer(status: AcquireStatus = "busy", retry_after: float = 3600.0) -> AcquireAnswer:
    return AcquireAnswer(status, 0, 0.0, retry_after, None)


async def step() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_woken_waiter_goes_on() -> None:
    entry = an_entry()
    waiter = asyncio.create_task(entry.wait())
    await step()
    assert not waiter.done()
    entry.wake()
    await waiter


async def test_a_wake_up_before_the_wait_is_not_lost_and_counts_once() -> None:
    entry = an_entry()
    entry.wake()
    entry.wake()
    await entry.wait()
    second = asyncio.create_task(entry.wait())
    await step()
    assert not second.done()
    entry.wake()
    await second


async def test_a_waiter_goes_on_after_its_pause() -> None:
    await an_entry().wait(0.001)


@pytest.fixture
async def timers(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.TimerHandle]:
    """The timers that were set."""
    loop = asyncio.get_running_loop()
    call_later = loop.call_later
    handles: list[asyncio.TimerHandle] = []

    def noted(*args: Any) -> asyncio.TimerHandle:
        handles.append(call_later(*args))
        return handles[-1]

    monkeypatch.setattr(loop, "call_later", noted)
    return handles


async def test_two_wake_ups_count_once_and_the_pause_does_not_end_after_them(
    timers: list[asyncio.TimerHandle],
) -> None:
    entry = an_entry()
    waiter = asyncio.create_task(entry.wait(3600))
    await step()
    entry.wake()
    entry.wake()
    await waiter
    [timer] = timers
    assert timer.cancelled(), "the first one's timer does not end the second wait"
    again = asyncio.create_task(entry.wait())
    await step()
    assert not again.done()
    again.cancel()


async def test_a_cancelled_waiter_leaves_no_timer(timers: list[asyncio.TimerHandle]) -> None:
    waiter = asyncio.create_task(an_entry().wait(3600))
    await step()
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    [timer] = timers
    assert timer.cancelled()


async def test_concurrent_waiters_share_one_subscription() -> None:
    store = Store()
    store.opening.clear()
    wait_queue = queue_of(store)
    opening = [asyncio.create_task(wait_queue.subscribe()) for _ in range(3)]
    await step()
    assert not wait_queue.is_subscribed
    store.opening.set()
    await asyncio.gather(*opening)
    assert (store.opened, wait_queue.is_subscribed) == (1, True)


async def test_the_subscription_ends_only_without_waiters() -> None:
    store = Store()
    wait_queue = queue_of(store)
    await wait_queue.subscribe()
    entry = enter(wait_queue)
    await wait_queue.unsubscribe()
    assert (store.closed, wait_queue.is_subscribed) == (0, True)
    wait_queue.leave(entry)
    await wait_queue.unsubscribe()
    await wait_queue.unsubscribe()
    assert (store.closed, wait_queue.is_subscribed) == (1, False)


async def test_all_waiters_request_again_when_the_subscription_ends() -> None:
    store = Store()
    wait_queue = queue_of(store)
    await wait_queue.subscribe()
    waiters = [
        asyncio.create_task(wait_queue.wait(enter(wait_queue, name), answer())) for name in ("feeds", "feeds", "other")
    ]
    await step()
    store.end()
    await asyncio.gather(*waiters)
    assert not wait_queue.is_subscribed
    await wait_queue.subscribe()
    assert (store.opened, wait_queue.is_subscribed) == (2, True)


async def test_a_notification_reaches_its_waiter_and_no_other() -> None:
    wait_queue = queue_of(Store())
    await wait_queue.subscribe()
    one, two = enter(wait_queue), enter(wait_queue)
    first, second = (asyncio.create_task(wait_queue.wait(entry, answer())) for entry in (one, two))
    await step()
    wait_queue.notify(two.grant_id)
    wait_queue.notify(uuid4())
    await second
    assert not first.done()
    first.cancel()


async def test_the_first_waiter_of_a_name_polls_when_the_lease_expires() -> None:
    wait_queue = queue_of(Store())
    await wait_queue.subscribe()
    one, two = (asyncio.create_task(wait_queue.wait(enter(wait_queue), answer(retry_after=0.01))) for _ in range(2))
    other = asyncio.create_task(wait_queue.wait(enter(wait_queue, "other"), answer()))
    await one
    assert not two.done()
    assert not other.done()
    two.cancel()
    other.cancel()


async def test_another_waiter_polls_when_the_first_one_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "_POLL_EVERY", 0.01)
    wait_queue = queue_of(Store())
    await wait_queue.subscribe()
    entries = [enter(wait_queue), enter(wait_queue)]
    first, second = (asyncio.create_task(wait_queue.wait(entry, answer(retry_after=0.001))) for entry in entries)
    await first
    wait_queue.leave(entries[0])
    await second


async def test_no_poll_is_left_when_the_last_waiter_leaves() -> None:
    wait_queue = queue_of(Store())
    await wait_queue.subscribe()
    entry = enter(wait_queue)
    pausing = asyncio.create_task(wait_queue.wait(entry, answer()))
    await step()
    pausing.cancel()
    wait_queue.leave(entry)
    assert wait_queue.is_empty
    assert wait_queue._polls == wait_queue._queues == {}


def steps(wait_queue: WaitQueue, answers: AcquireAnswer, count: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses of a waiter that always gets the same answer."""
    pauses: list[float] = []

    async def wait(entry: QueueEntry, seconds: float | None = None) -> None:
        assert seconds is not None, "nothing would wake it"
        pauses.append(seconds)

    async def request_repeatedly() -> None:
        entry = enter(wait_queue)
        for _ in range(count):
            await wait_queue.wait(entry, answers)

    monkeypatch.setattr(QueueEntry, "wait", wait)
    asyncio.run(request_repeatedly())
    return pauses


@pytest.mark.parametrize(("status", "first"), [("locked", 0.02), ("changing", 0.002)])
def test_ends_that_are_not_notified_are_polled_in_growing_steps(
    status: AcquireStatus, first: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = steps(queue_of(cast(Any, None)), answer(status, first), 20, monkeypatch)
    assert pauses[0] == first
    assert pauses == sorted(pauses)
    assert pauses[-1] == 0.25


def test_waiters_without_a_subscription_poll_in_growing_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = steps(queue_of(cast(Any, None)), answer(), 20, monkeypatch)
    assert 0.04 <= pauses[0] <= 0.05
    assert all(later > 0.7 * earlier for earlier, later in pairwise(pauses))
    assert 0.8 <= pauses[-1] <= 1


def test_waiters_without_a_subscription_poll_when_the_lease_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = steps(queue_of(cast(Any, None)), answer(retry_after=0.01), 5, monkeypatch)
    assert all(0.01 < pause < 0.02 for pause in pauses)


NOW = 10_000.0


@pytest.fixture
def queue_and_entry(monkeypatch: pytest.MonkeyPatch) -> tuple[WaitQueue, QueueEntry]:
    """A queue and an entry, while this machine's clock stands still."""
    monkeypatch.setattr(queue, "boottime", lambda: NOW)
    wait_queue = queue_of(Store())
    return wait_queue, enter(wait_queue)


def trusted_for(
    queue_and_entry: tuple[WaitQueue, QueueEntry],
    *,
    waited: float,
    left: float,
    clock: float = 1000.0,
    step: float = 0.0,
) -> float | None:
    """Return for how long the queue trusts a grant with `left` seconds remaining; the last answer came `waited` ago."""
    wait_queue, entry = queue_and_entry
    wait_queue.notify(entry.grant_id, HandedGrant(7, clock + waited + left + step if clock else 0.0))
    got = wait_queue.handed_over(entry, answer()._replace(clock=clock), NOW - waited)
    assert wait_queue.handed_over(entry, answer()._replace(clock=clock), NOW - waited) is None, (
        "a grant is returned once"
    )
    if got is None:
        return None
    assert (got.status, got.token, got.brief) == ("granted", 7, True)
    return got.remaining - waited


def test_a_grant_from_a_notification_is_trusted_for_its_remaining_time(
    queue_and_entry: tuple[WaitQueue, QueueEntry],
) -> None:
    trusted = trusted_for(queue_and_entry, waited=5.0, left=0.9)
    assert trusted is not None
    assert 0.8 < trusted < 0.9


@pytest.mark.parametrize("left", [0.25, 0.0, -10.0])
def test_an_old_notification_is_not_trusted(queue_and_entry: tuple[WaitQueue, QueueEntry], left: float) -> None:
    assert trusted_for(queue_and_entry, waited=5.0, left=left) is None


def test_after_a_long_wait_the_clocks_may_have_drifted(queue_and_entry: tuple[WaitQueue, QueueEntry]) -> None:
    assert trusted_for(queue_and_entry, waited=3600.0, left=1.0) is None


def test_a_notification_is_not_trusted_after_the_clock_was_set_forward(
    queue_and_entry: tuple[WaitQueue, QueueEntry],
) -> None:
    assert trusted_for(queue_and_entry, waited=5.0, left=1.0, step=45.0) is None


def test_only_the_first_notification_is_trusted(queue_and_entry: tuple[WaitQueue, QueueEntry]) -> None:
    """The first one shows the grant_id on a channel on which every session of the server can listen."""
    wait_queue, entry = queue_and_entry
    wait_queue.notify(entry.grant_id)
    assert trusted_for(queue_and_entry, waited=0.1, left=0.9) is None


def test_a_notification_is_not_trusted_after_the_clock_was_set_back(
    queue_and_entry: tuple[WaitQueue, QueueEntry],
) -> None:
    assert trusted_for(queue_and_entry, waited=5.0, left=1.0, step=-45.0) is None


def test_a_notification_is_not_trusted_without_the_stores_clock(queue_and_entry: tuple[WaitQueue, QueueEntry]) -> None:
    assert trusted_for(queue_and_entry, waited=5.0, left=1.0, clock=0.0) is None


def test_a_notification_without_a_grant_leads_to_a_request(queue_and_entry: tuple[WaitQueue, QueueEntry]) -> None:
    wait_queue, entry = queue_and_entry
    wait_queue.notify(entry.grant_id)
    assert wait_queue.handed_over(entry, answer()._replace(clock=1000.0), NOW) is None


async def test_new_waiters_may_bring_a_poll_forward_and_never_put_it_off() -> None:
    wait_queue = queue_of(Store())
    await wait_queue.subscribe()
    waiters = []

    async def due_at(retry_after: float) -> float:
        waiters.append(asyncio.create_task(wait_queue.wait(enter(wait_queue), answer(retry_after=retry_after))))
        await step()
        return wait_queue._polls["feeds"].when()

    first = await due_at(2.0)
    assert await due_at(3600.0) == first
    assert await due_at(1.0) < first
    for waiter in waiters:
        waiter.cancel()
    await asyncio.wait(waiters)


async def test_a_held_back_waiter_is_in_no_queue_and_polls_by_itself() -> None:
    """After a failover no waiter is notified, and the others do not depend on the first."""
    wait_queue = queue_of(Store())
    await wait_queue.subscribe()
    entries = [enter(wait_queue) for _ in range(3)]
    async with asyncio.timeout(10):
        await asyncio.gather(*(wait_queue.wait(entry, answer("held back", 0.0)) for entry in entries))
