"""Turns and the room they are waited for in: no call is lost, somebody always looks out, and steps have an end."""

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
    """Can be heard, or not; says how often it was asked for its ear."""

    def __init__(self, *, tells: bool = True) -> None:
        self.tells = tells
        self.opened = self.closed = 0
        self.end: Callable[[], None] = lambda: None
        self.opening = asyncio.Event()
        self.opening.set()

    async def subscribe(self, on_turn: OnTurn, on_end: Callable[[], None]) -> bool:
        self.opened += 1
        self.end = on_end
        await self.opening.wait()
        return self.tells

    async def unsubscribe(self) -> None:
        self.closed += 1


def room_of(store: Store) -> WaitQueue:
    return WaitQueue(cast(LeaseStore, store))


def a_turn() -> QueueEntry:
    return QueueEntry("feeds", uuid4())


def enter(room: WaitQueue, name: str = "feeds") -> QueueEntry:
    return room.enter(AcquireRequest(name, uuid4(), 30, None, wait=True))


def answer(status: AcquireStatus = "busy", retry_after: float = 3600.0) -> AcquireAnswer:
    return AcquireAnswer(status, 0, 0.0, retry_after, None)


async def step() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_who_is_called_goes_on() -> None:
    turn = a_turn()
    waiter = asyncio.create_task(turn.wait())
    await step()
    assert not waiter.done()
    turn.wake()
    await waiter


async def test_a_call_that_comes_before_the_wait_is_not_lost_and_counts_once() -> None:
    turn = a_turn()
    turn.wake()
    turn.wake()
    await turn.wait()
    second = asyncio.create_task(turn.wait())
    await step()
    assert not second.done()
    turn.wake()
    await second


async def test_who_is_not_called_goes_on_after_a_while() -> None:
    await a_turn().wait(0.001)


@pytest.fixture
async def timers(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.TimerHandle]:
    """Those that were set."""
    loop = asyncio.get_running_loop()
    call_later = loop.call_later
    handles: list[asyncio.TimerHandle] = []

    def noted(*args: Any) -> asyncio.TimerHandle:
        handles.append(call_later(*args))
        return handles[-1]

    monkeypatch.setattr(loop, "call_later", noted)
    return handles


async def test_two_calls_are_one_and_the_end_of_the_while_does_not_come_after_them(
    timers: list[asyncio.TimerHandle],
) -> None:
    turn = a_turn()
    waiter = asyncio.create_task(turn.wait(3600))
    await step()
    turn.wake()
    turn.wake()
    await waiter
    [timer] = timers
    assert timer.cancelled(), "the first one's timer does not end the second wait"
    again = asyncio.create_task(turn.wait())
    await step()
    assert not again.done()
    again.cancel()


async def test_who_is_cancelled_leaves_no_timer(timers: list[asyncio.TimerHandle]) -> None:
    waiter = asyncio.create_task(a_turn().wait(3600))
    await step()
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    [timer] = timers
    assert timer.cancelled()


async def test_the_ear_is_opened_once_for_all() -> None:
    store = Store()
    store.opening.clear()
    room = room_of(store)
    opening = [asyncio.create_task(room.subscribe()) for _ in range(3)]
    await step()
    assert not room.is_subscribed
    store.opening.set()
    await asyncio.gather(*opening)
    assert (store.opened, room.is_subscribed) == (1, True)


async def test_the_ear_is_closed_only_if_nobody_waits() -> None:
    store = Store()
    room = room_of(store)
    await room.subscribe()
    turn = enter(room)
    await room.unsubscribe()
    assert (store.closed, room.is_subscribed) == (0, True)
    room.leave(turn)
    await room.unsubscribe()
    await room.unsubscribe()
    assert (store.closed, room.is_subscribed) == (1, False)


async def test_everybody_asks_again_when_the_ear_is_cut_off() -> None:
    store = Store()
    room = room_of(store)
    await room.subscribe()
    waiters = [asyncio.create_task(room.wait(enter(room, name), answer())) for name in ("feeds", "feeds", "other")]
    await step()
    store.end()
    await asyncio.gather(*waiters)
    assert not room.is_subscribed
    await room.subscribe()
    assert (store.opened, room.is_subscribed) == (2, True)


async def test_a_call_reaches_its_waiter_and_no_other() -> None:
    room = room_of(Store())
    await room.subscribe()
    one, two = enter(room), enter(room)
    first, second = (asyncio.create_task(room.wait(turn, answer())) for turn in (one, two))
    await step()
    room.notify(two.grant_id)
    room.notify(uuid4())
    await second
    assert not first.done()
    first.cancel()


async def test_the_first_who_waits_for_a_name_looks_when_the_lease_expires() -> None:
    room = room_of(Store())
    await room.subscribe()
    one, two = (asyncio.create_task(room.wait(enter(room), answer(retry_after=0.01))) for _ in range(2))
    other = asyncio.create_task(room.wait(enter(room, "other"), answer()))
    await one
    assert not two.done()
    assert not other.done()
    two.cancel()
    other.cancel()


async def test_when_the_look_out_leaves_another_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "_POLL_EVERY", 0.01)
    room = room_of(Store())
    await room.subscribe()
    turns = [enter(room), enter(room)]
    first, second = (asyncio.create_task(room.wait(turn, answer(retry_after=0.001))) for turn in turns)
    await first
    room.leave(turns[0])
    await second


async def test_when_the_last_one_leaves_nobody_looks() -> None:
    room = room_of(Store())
    await room.subscribe()
    turn = enter(room)
    pausing = asyncio.create_task(room.wait(turn, answer()))
    await step()
    pausing.cancel()
    room.leave(turn)
    assert room.is_empty
    assert room._polls == room._queues == {}


def steps(room: WaitQueue, answers: AcquireAnswer, count: int, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long a waiter that is always told the same pauses each time."""
    pauses: list[float] = []

    async def wait(turn: QueueEntry, seconds: float | None = None) -> None:
        assert seconds is not None, "nobody would wake it"
        pauses.append(seconds)

    async def ask_again_and_again() -> None:
        turn = enter(room)
        for _ in range(count):
            await room.wait(turn, answers)

    monkeypatch.setattr(QueueEntry, "wait", wait)
    asyncio.run(ask_again_and_again())
    return pauses


@pytest.mark.parametrize(("status", "first"), [("locked", 0.02), ("changing", 0.002)])
def test_what_nobody_tells_of_is_asked_for_in_growing_steps(
    status: AcquireStatus, first: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = steps(room_of(cast(Any, None)), answer(status, first), 20, monkeypatch)
    assert pauses[0] == first
    assert pauses == sorted(pauses)
    assert pauses[-1] == 0.25


def test_who_cannot_be_told_asks_in_growing_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = steps(room_of(cast(Any, None)), answer(), 20, monkeypatch)
    assert 0.04 <= pauses[0] <= 0.05
    assert all(later > 0.7 * earlier for earlier, later in pairwise(pauses))
    assert 0.8 <= pauses[-1] <= 1


def test_who_cannot_be_told_looks_when_the_lease_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = steps(room_of(cast(Any, None)), answer(retry_after=0.01), 5, monkeypatch)
    assert all(0.01 < pause < 0.02 for pause in pauses)


NOW = 10_000.0


@pytest.fixture
def room_and_turn(monkeypatch: pytest.MonkeyPatch) -> tuple[WaitQueue, QueueEntry]:
    """This machine's clock stands still."""
    monkeypatch.setattr(queue, "boottime", lambda: NOW)
    room = room_of(Store())
    return room, enter(room)


def taken(
    room_and_turn: tuple[WaitQueue, QueueEntry], *, waited: float, left: float, clock: float = 1000.0, step: float = 0.0
) -> float | None:
    """What can be trusted from now on of a grant of which `left` is left in truth, after an answer `waited` ago."""
    room, turn = room_and_turn
    room.notify(turn.grant_id, HandedGrant(7, clock + waited + left + step if clock else 0.0))
    got = room.handed_over(turn, answer()._replace(clock=clock), NOW - waited)
    assert room.handed_over(turn, answer()._replace(clock=clock), NOW - waited) is None, "it is taken once"
    if got is None:
        return None
    assert (got.status, got.token, got.brief) == ("granted", 7, True)
    return got.remaining - waited


def test_what_was_handed_on_is_trusted_for_as_long_as_it_is_left(room_and_turn: tuple[WaitQueue, QueueEntry]) -> None:
    trusted = taken(room_and_turn, waited=5.0, left=0.9)
    assert trusted is not None
    assert 0.8 < trusted < 0.9


@pytest.mark.parametrize("left", [0.25, 0.0, -10.0])
def test_an_old_word_is_not_trusted(room_and_turn: tuple[WaitQueue, QueueEntry], left: float) -> None:
    assert taken(room_and_turn, waited=5.0, left=left) is None


def test_after_a_long_wait_the_clocks_may_have_come_apart(room_and_turn: tuple[WaitQueue, QueueEntry]) -> None:
    assert taken(room_and_turn, waited=3600.0, left=1.0) is None


def test_a_clock_that_was_set_forward_is_not_believed(room_and_turn: tuple[WaitQueue, QueueEntry]) -> None:
    assert taken(room_and_turn, waited=5.0, left=1.0, step=45.0) is None


def test_after_the_first_word_anybody_could_say_anything(room_and_turn: tuple[WaitQueue, QueueEntry]) -> None:
    """The grant_id has been told on a channel to which the whole server may listen."""
    room, turn = room_and_turn
    room.notify(turn.grant_id)
    assert taken(room_and_turn, waited=0.1, left=0.9) is None


def test_a_clock_that_was_set_back_is_asked_again(room_and_turn: tuple[WaitQueue, QueueEntry]) -> None:
    assert taken(room_and_turn, waited=5.0, left=1.0, step=-45.0) is None


def test_without_the_stores_clock_it_is_asked_again(room_and_turn: tuple[WaitQueue, QueueEntry]) -> None:
    assert taken(room_and_turn, waited=5.0, left=1.0, clock=0.0) is None


def test_who_is_called_without_having_been_handed_anything_asks(room_and_turn: tuple[WaitQueue, QueueEntry]) -> None:
    room, turn = room_and_turn
    room.notify(turn.grant_id)
    assert room.handed_over(turn, answer()._replace(clock=1000.0), NOW) is None


async def test_who_comes_again_and_again_puts_nobodys_look_off_and_may_bring_it_forward() -> None:
    room = room_of(Store())
    await room.subscribe()
    waiters = []

    async def due_at(retry_after: float) -> float:
        waiters.append(asyncio.create_task(room.wait(enter(room), answer(retry_after=retry_after))))
        await step()
        return room._polls["feeds"].when()

    first = await due_at(2.0)
    assert await due_at(3600.0) == first
    assert await due_at(1.0) < first
    for waiter in waiters:
        waiter.cancel()
    await asyncio.wait(waiters)


async def test_who_is_held_back_is_in_no_queue_and_asks_by_itself() -> None:
    """After a failover: nobody is told, and whoever comes first need not leave for the others to go on."""
    room = room_of(Store())
    await room.subscribe()
    turns = [enter(room) for _ in range(3)]
    async with asyncio.timeout(10):
        await asyncio.gather(*(room.wait(turn, answer("held back", 0.0)) for turn in turns))
