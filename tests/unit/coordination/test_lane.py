"""Requests that share statements: who goes together, who gets which answer, and what becomes of those who went away."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from interlock import errors
from interlock.bridge import LoopThread, Question, loop_thread
from interlock.clock import boottime
from interlock.coordination import lane as module
from interlock.coordination.lane import Lane
from interlock.stores.leases import PartlyFailed
from support.waiting import eventually

REFUSED = errors.StatementFailed("It was refused.", sqlstate="22023")


class Server:
    """Doubles numbers, one batch at a time, when it is allowed to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.orphans: list[tuple[int, int]] = []
        self.failures: list[tuple[int, Exception]] = []
        self.bad: dict[int, BaseException] = {}
        self.open = asyncio.Event()
        self.open.set()

    async def send(self, batch: Sequence[int]) -> list[int]:
        self.batches.append(list(batch))
        await self.open.wait()
        for number in batch:
            if number in self.bad:
                raise self.bad[number]
        return [2 * number for number in batch]

    def lane(self, *, always: bool = False, is_idle: bool = False) -> Lane[int, int]:
        return Lane(
            self.send,
            lambda request, answer, sent_at: self.orphans.append((request, answer)),
            lambda request, error: self.failures.append((request, error)),
            always=always,
            is_idle=lambda: is_idle,
        )


class Doubling(Question[int]):
    """Of a thread."""

    def __init__(self, lane: Lane[int, int], number: int) -> None:
        self._lane = lane
        self._number = number

    def ask(self) -> "asyncio.Future[tuple[int, float]]":
        self._asked = self._lane.submit(self._number)
        return self._asked

    def answer(self) -> int:
        return self._asked.result()[0]


async def loner(server: Server, *, always: bool = False) -> Lane[int, int]:
    """A lane on which nobody else has come for a while."""
    lane = server.lane(always=always, is_idle=True)
    for _ in range(module._ALONE):
        await lane.submit(0)
        await lane.drain()
    server.batches.clear()
    return lane


async def answers(*futures: "asyncio.Future[tuple[int, float]]") -> list[int]:
    return [answer for answer, _ in await asyncio.gather(*futures)]


async def test_whoever_is_ready_goes_together_and_gets_its_own_answer() -> None:
    server = Server()
    lane = server.lane()
    assert await answers(*(lane.submit(number) for number in (3, 1, 2))) == [6, 2, 4]
    assert server.batches == [[3, 1, 2]]


async def test_who_was_answered_and_is_back_at_once_is_sent_in_the_same_turn_of_the_loop() -> None:
    server = Server()
    lane = server.lane()
    await lane.submit(1)
    sent_by_then: list[list[int]] = []
    asyncio.get_running_loop().call_soon(lambda: sent_by_then.extend(server.batches))
    assert await answers(lane.submit(2)) == [4]
    assert sent_by_then == [[1], [2]]


async def test_where_nobody_else_comes_a_request_is_sent_at_once() -> None:
    server = Server()
    server.open.clear()
    lane = server.lane(is_idle=True)
    sent_at_once = []
    for number in range(module._ALONE + 1):
        asked = lane.submit(number)
        sent_at_once.append(server.batches == [[number]])
        later = lane.submit(10 + number) if server.batches else None
        await asyncio.sleep(0)
        server.open.set()
        assert await answers(asked) == [2 * number]
        if later is not None:
            assert await answers(later) == [2 * (10 + number)], "it goes with the next"
        await lane.drain()
        server.batches.clear()
        server.open.clear()
    assert sent_at_once == [False] * module._ALONE + [True]


async def test_where_others_came_a_request_waits_for_the_end_of_the_turn() -> None:
    server = Server()
    lane = await loner(server)
    server.open.clear()
    first, *others = [lane.submit(number) for number in (1, 2, 3)]
    assert server.batches == [[1]]
    server.open.set()
    assert await answers(first, *others) == [2, 4, 6]
    await lane.drain()
    again = [lane.submit(number) for number in (4, 5)]
    assert server.batches == [[1], [2, 3]]
    assert await answers(*again) == [8, 10]
    assert server.batches[2:] == [[4, 5]]


async def test_a_store_that_is_not_idle_is_sent_nothing_at_once() -> None:
    server = Server()
    lane = server.lane(is_idle=False)
    for number in range(2 * module._ALONE):
        asked = lane.submit(number)
        assert len(server.batches) == number
        await asked
        await lane.drain()


async def test_what_is_sent_at_once_fails_like_anything_else() -> None:
    server = Server()
    lane = await loner(server)
    server.bad[1] = REFUSED
    with pytest.raises(errors.StatementFailed):
        await lane.submit(1)
    await lane.drain()
    assert await answers(lane.submit(2)) == [4]


async def test_what_could_not_be_begun_is_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stack is full, say, and nobody comes who would send it with theirs."""
    server = Server()
    lane = server.lane(always=True)

    def refuse(*_: object) -> None:
        raise RecursionError

    with monkeypatch.context() as patch:
        patch.setattr(Lane, "_work", refuse)
        with pytest.raises(RecursionError):
            lane.submit(1)
    await lane.drain()
    assert server.batches == [[1]]


async def test_what_is_sent_at_once_is_drained_and_may_be_nobodys() -> None:
    server = Server()
    lane = await loner(server, always=True)
    server.open.clear()
    lane.post(1)
    assert server.batches == [[1]]
    asyncio.get_running_loop().call_soon(server.open.set)
    await lane.drain()
    assert server.orphans == [(1, 2)]


async def test_when_the_loop_ends_nobody_waits_for_what_was_sent_at_once() -> None:
    server = Server()
    lane = await loner(server)
    server.open.clear()
    sent = lane.submit(1)
    assert lane._worker is not None
    await asyncio.sleep(0)
    lane._worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sent
    server.open.set()
    assert await answers(lane.submit(2)) == [4]


async def test_whoever_comes_while_a_statement_is_under_way_goes_with_the_next() -> None:
    server = Server()
    server.open.clear()
    lane = server.lane()
    first = lane.submit(1)
    await asyncio.sleep(0)
    later = [lane.submit(number) for number in (2, 3)]
    server.open.set()
    assert await answers(first, *later) == [2, 4, 6]
    assert server.batches == [[1], [2, 3]]


async def test_a_batch_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST", 2)
    server = Server()
    lane = server.lane()
    await answers(*(lane.submit(number) for number in range(5)))
    assert server.batches == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(("many", "batches"), [(5, [4]), (4, [2, 2])])
def test_half_of_many_threads_share_a_statement(monkeypatch: pytest.MonkeyPatch, many: int, batches: list[int]) -> None:
    monkeypatch.setattr(loop_thread, "_MANY", many)
    thread, all_came, server = LoopThread("test-loop"), threading.Event(), Server()
    lane = server.lane()
    with ThreadPoolExecutor(4) as threads:
        thread.loop.call_soon_threadsafe(all_came.wait)
        asked = [threads.submit(thread.ask, Doubling(lane, number)) for number in range(4)]
        eventually(lambda: len(thread._arriving) == 4)
        all_came.set()
        assert [each.result(10) for each in asked] == [0, 2, 4, 6]
    thread.close()
    assert [len(batch) for batch in server.batches] == batches


async def test_the_moment_is_before_it_was_sent() -> None:
    server = Server()
    server.open.clear()
    future = server.lane().submit(1)
    await asyncio.sleep(0)
    sent_by = boottime()
    server.open.set()
    assert (await future)[1] <= sent_by


@pytest.mark.parametrize("error", [REFUSED, errors.LockNotAvailable("It is locked.")])
async def test_one_bad_request_fails_alone(error: errors.StoreError) -> None:
    server = Server()
    server.bad[2] = error
    lane = server.lane()
    good, bad, better = (lane.submit(number) for number in (1, 2, 3))
    assert await answers(good, better) == [2, 6]
    with pytest.raises(type(error)):
        await bad
    assert server.batches == [[1, 2, 3], [1], [2], [3]]


async def test_the_moment_of_one_that_was_sent_again_is_that_of_the_second_time() -> None:
    server = Server()
    server.bad[2] = REFUSED
    lane = server.lane()
    good, bad = lane.submit(1), lane.submit(2)
    server.open.clear()
    await asyncio.sleep(0)
    before = boottime()
    server.open.set()
    assert (await good)[1] > before
    with pytest.raises(errors.StatementFailed):
        await bad


@pytest.mark.parametrize("error", [errors.DatabaseUnreachable("It is away."), AttributeError("a bug of ours")])
async def test_what_is_wrong_with_the_connection_is_wrong_for_all(error: Exception) -> None:
    server = Server()
    server.bad[2] = error
    lane = server.lane()
    futures = [lane.submit(number) for number in (1, 2)]
    for future in futures:
        with pytest.raises(type(error)):
            await future
    assert server.batches == [[1, 2]]
    server.bad.clear()
    assert await answers(lane.submit(3)) == [6], "the next one finds it at work"


async def test_who_went_away_before_it_was_sent_is_left_out() -> None:
    server = Server()
    lane = server.lane()
    lane.submit(1).cancel()
    assert await answers(lane.submit(2)) == [4]
    assert (server.batches, server.orphans) == ([[2]], [])


async def test_where_all_must_be_sent_nobody_is_left_out() -> None:
    server = Server()
    lane = server.lane(always=True)
    lane.submit(1).cancel()
    lane.post(2)
    await lane.drain()
    assert (server.batches, server.orphans) == ([[1, 2]], [(1, 2), (2, 4)])


async def test_an_answer_that_nobody_waits_for_is_an_orphan() -> None:
    server = Server()
    server.open.clear()
    lane = server.lane()
    stays, leaves = lane.submit(1), lane.submit(2)
    await asyncio.sleep(0)
    leaves.cancel()
    server.open.set()
    assert await answers(stays) == [2]
    assert server.orphans == [(2, 4)]


async def test_a_failure_that_nobody_waits_for_is_told_too() -> None:
    server = Server()
    server.open.clear()
    error = errors.ConnectionLost("It ended.")
    server.bad[1] = error
    lane = server.lane()
    future = lane.submit(1)
    await asyncio.sleep(0)
    future.cancel()
    server.open.set()
    await lane.drain()
    assert (server.failures, server.orphans) == ([(1, error)], [])


async def test_who_is_dismissed_gets_the_error_at_once_and_its_answer_is_an_orphan() -> None:
    server = Server()
    server.open.clear()
    lane = server.lane()
    sent = lane.submit(1)
    await asyncio.sleep(0)
    waiting = lane.submit(2)
    lane.dismiss(LookupError("closed"))
    for future in (sent, waiting):
        with pytest.raises(LookupError):
            await future
    server.open.set()
    await lane.drain()
    assert (server.batches, server.orphans) == ([[1]], [(1, 2)])


async def test_when_the_loop_ends_nobody_waits_for_ever() -> None:
    server = Server()
    server.open.clear()
    lane = server.lane()
    sent = lane.submit(1)
    await asyncio.sleep(0)
    waiting = lane.submit(2)
    assert lane._worker is not None
    lane._worker.cancel()
    for future in (sent, waiting):
        with pytest.raises(asyncio.CancelledError):
            await future
    server.open.set()
    assert await answers(lane.submit(3)) == [6]


async def test_when_the_loop_ends_before_the_worker_has_begun_nobody_waits_for_ever() -> None:
    server = Server()
    for lane in (server.lane(), await loner(server)):
        server.open.clear()
        waiting = lane.submit(1)
        assert lane._worker is not None
        lane._worker.cancel()
        await asyncio.wait([waiting], timeout=1)
        assert waiting.cancelled()
        await asyncio.wait_for(lane.drain(), 1)
        server.open.set()
        assert await answers(lane.submit(2)) == [4]


async def test_when_the_loop_ends_while_each_is_sent_alone_nobody_waits_for_ever() -> None:
    server = Server()
    server.bad = {1: REFUSED, 2: asyncio.CancelledError()}
    lane = server.lane()
    waiting = [lane.submit(number) for number in (1, 2, 3)]
    await asyncio.wait(waiting, timeout=1)
    assert [future.cancelled() for future in waiting] == [False, True, True]


async def test_when_the_loop_ends_between_two_statements_nobody_waits_for_ever() -> None:
    server = Server()
    server.open.clear()
    lane = server.lane()
    first = lane.submit(1)
    await asyncio.sleep(0)
    assert lane._worker is not None
    worker = lane._worker
    first.add_done_callback(lambda _: worker.cancel())
    later = lane.submit(2)
    server.open.set()
    await asyncio.wait([later], timeout=1)
    assert later.cancelled()


async def test_where_requests_are_on_their_own_each_has_its_own_outcome() -> None:
    outcomes: list[object] = [2, errors.StoreThrottled("Not now."), 6, errors.StoreThrottled("Not now.")]
    server = Server()

    async def send(batch: Sequence[int]) -> list[int]:
        raise PartlyFailed(outcomes)

    lane: Lane[int, int] = Lane(
        send,
        lambda request, answer, sent_at: server.orphans.append((request, answer)),
        lambda request, error: server.failures.append((request, error)),
        always=True,
    )
    waiting = [lane.submit(number) for number in (1, 2)]
    lane.post(3)
    lane.post(4)
    assert await answers(waiting[0]) == [2]
    with pytest.raises(errors.StoreThrottled):
        await waiting[1]
    assert server.orphans == [(3, 6)]
    assert [request for request, _ in server.failures] == [4]


async def test_who_could_not_begin_leaves_the_lane_to_the_next() -> None:
    """The stack was full, or an interrupt came."""
    server, is_full = Server(), True

    def is_idle() -> bool:
        if is_full:
            raise RecursionError
        return True

    lane = Lane(server.send, lambda *_: None, lambda *_: None, is_idle=is_idle)
    lane._alone = module._ALONE
    with pytest.raises(RecursionError):
        lane.submit(1)
    is_full = False
    async with asyncio.timeout(10):
        assert (await lane.submit(2))[0] == 4
    assert server.batches == [[2]]
