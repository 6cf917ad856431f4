"""Requests that share statements: who goes together, who gets which answer, and what becomes of those who went away."""

import asyncio
from collections.abc import Sequence

import pytest

from interlock import errors
from interlock.clock import boottime
from interlock.coordination.engine import batch as module
from interlock.coordination.engine.batch import Batcher
from interlock.stores.leases import PartlyFailed

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

    def lane(self, *, send_abandoned: bool = False) -> Batcher[int, int]:
        return Batcher(
            self.send,
            lambda request, answer, sent_at: self.orphans.append((request, answer)),
            lambda request, error: self.failures.append((request, error)),
            send_abandoned=send_abandoned,
        )


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


async def test_what_could_not_be_begun_is_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stack is full, say, and nobody comes who would send it with theirs."""
    server = Server()
    lane = server.lane(send_abandoned=True)

    def refuse(*_: object) -> None:
        raise RecursionError

    with monkeypatch.context() as patch:
        patch.setattr(Batcher, "_work", refuse)
        with pytest.raises(RecursionError):
            lane.submit(1)
    await lane.drain()
    assert server.batches == [[1]]


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
    lane = server.lane(send_abandoned=True)
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
    lane.fail_all(LookupError("closed"))
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
    lane = server.lane()
    waiting = lane.submit(1)
    assert lane._worker is not None
    lane._worker.cancel()
    await asyncio.wait([waiting], timeout=1)
    assert waiting.cancelled()
    await asyncio.wait_for(lane.drain(), 1)
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

    lane: Batcher[int, int] = Batcher(
        send,
        lambda request, answer, sent_at: server.orphans.append((request, answer)),
        lambda request, error: server.failures.append((request, error)),
        send_abandoned=True,
    )
    waiting = [lane.submit(number) for number in (1, 2)]
    lane.post(3)
    lane.post(4)
    assert await answers(waiting[0]) == [2]
    with pytest.raises(errors.StoreThrottled):
        await waiting[1]
    assert server.orphans == [(3, 6)]
    assert [request for request, _ in server.failures] == [4]


async def test_who_could_not_begin_leaves_the_lane_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stack was full, or an interrupt came."""
    server = Server()
    lane = server.lane()

    def refuse(*_: object) -> None:
        raise RecursionError

    with monkeypatch.context() as patch:
        patch.setattr(Batcher, "_work", refuse)
        with pytest.raises(RecursionError):
            lane.submit(1)
    async with asyncio.timeout(10):
        assert (await lane.submit(2))[0] == 4
    assert server.batches == [[2]]
