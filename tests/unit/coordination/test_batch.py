"""Requests that share statements: the batches, the answers, and callers that stop waiting."""

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
    """Doubles numbers, one batch at a time, when the test allows it."""

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

    def batcher(self, *, send_abandoned: bool = False) -> Batcher[int, int]:
        return Batcher(
            self.send,
            lambda request, answer, sent_at: self.orphans.append((request, answer)),
            lambda request, error: self.failures.append((request, error)),
            send_abandoned=send_abandoned,
        )


async def answers(*futures: "asyncio.Future[tuple[int, float]]") -> list[int]:
    return [answer for answer, _ in await asyncio.gather(*futures)]


async def test_requests_that_are_ready_share_a_batch_and_each_gets_its_own_answer() -> None:
    server = Server()
    batcher = server.batcher()
    assert await answers(*(batcher.submit(number) for number in (3, 1, 2))) == [6, 2, 4]
    assert server.batches == [[3, 1, 2]]


async def test_a_request_sent_right_after_an_answer_goes_out_in_the_same_turn_of_the_loop() -> None:
    server = Server()
    batcher = server.batcher()
    await batcher.submit(1)
    sent_by_then: list[list[int]] = []
    asyncio.get_running_loop().call_soon(lambda: sent_by_then.extend(server.batches))
    assert await answers(batcher.submit(2)) == [4]
    assert sent_by_then == [[1], [2]]


async def test_drain_sends_requests_whose_worker_could_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stack was full, for example, and no later request starts the worker."""
    server = Server()
    batcher = server.batcher(send_abandoned=True)

    def refuse(*_: object) -> None:
        raise RecursionError

    with monkeypatch.context() as patch:
        patch.setattr(Batcher, "_work", refuse)
        with pytest.raises(RecursionError):
            batcher.submit(1)
    await batcher.drain()
    assert server.batches == [[1]]


async def test_requests_that_arrive_during_a_statement_share_the_next_one() -> None:
    server = Server()
    server.open.clear()
    batcher = server.batcher()
    first = batcher.submit(1)
    await asyncio.sleep(0)
    later = [batcher.submit(number) for number in (2, 3)]
    server.open.set()
    assert await answers(first, *later) == [2, 4, 6]
    assert server.batches == [[1], [2, 3]]


async def test_a_batch_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST", 2)
    server = Server()
    batcher = server.batcher()
    await answers(*(batcher.submit(number) for number in range(5)))
    assert server.batches == [[0, 1], [2, 3], [4]]


async def test_the_time_of_an_answer_is_before_its_request_was_sent() -> None:
    server = Server()
    server.open.clear()
    future = server.batcher().submit(1)
    await asyncio.sleep(0)
    sent_by = boottime()
    server.open.set()
    assert (await future)[1] <= sent_by


@pytest.mark.parametrize("error", [REFUSED, errors.LockNotAvailable("It is locked.")])
async def test_one_bad_request_fails_alone(error: errors.StoreError) -> None:
    server = Server()
    server.bad[2] = error
    batcher = server.batcher()
    good, bad, better = (batcher.submit(number) for number in (1, 2, 3))
    assert await answers(good, better) == [2, 6]
    with pytest.raises(type(error)):
        await bad
    assert server.batches == [[1, 2, 3], [1], [2], [3]]


async def test_the_time_of_a_request_sent_twice_is_that_of_the_second_time() -> None:
    server = Server()
    server.bad[2] = REFUSED
    batcher = server.batcher()
    good, bad = batcher.submit(1), batcher.submit(2)
    server.open.clear()
    await asyncio.sleep(0)
    before = boottime()
    server.open.set()
    assert (await good)[1] > before
    with pytest.raises(errors.StatementFailed):
        await bad


@pytest.mark.parametrize("error", [errors.DatabaseUnreachable("It is away."), AttributeError("a bug of ours")])
async def test_an_error_of_the_connection_fails_all_requests(error: Exception) -> None:
    server = Server()
    server.bad[2] = error
    batcher = server.batcher()
    futures = [batcher.submit(number) for number in (1, 2)]
    for future in futures:
        with pytest.raises(type(error)):
            await future
    assert server.batches == [[1, 2]]
    server.bad.clear()
    assert await answers(batcher.submit(3)) == [6], "the batcher still works"


async def test_a_request_abandoned_before_it_was_sent_is_left_out() -> None:
    server = Server()
    batcher = server.batcher()
    batcher.submit(1).cancel()
    assert await answers(batcher.submit(2)) == [4]
    assert (server.batches, server.orphans) == ([[2]], [])


async def test_send_abandoned_leaves_no_request_out() -> None:
    server = Server()
    batcher = server.batcher(send_abandoned=True)
    batcher.submit(1).cancel()
    batcher.post(2)
    await batcher.drain()
    assert (server.batches, server.orphans) == ([[1, 2]], [(1, 2), (2, 4)])


async def test_an_answer_without_a_waiting_caller_is_unclaimed() -> None:
    server = Server()
    server.open.clear()
    batcher = server.batcher()
    stays, leaves = batcher.submit(1), batcher.submit(2)
    await asyncio.sleep(0)
    leaves.cancel()
    server.open.set()
    assert await answers(stays) == [2]
    assert server.orphans == [(2, 4)]


async def test_an_error_without_a_waiting_caller_is_reported() -> None:
    server = Server()
    server.open.clear()
    error = errors.ConnectionLost("It ended.")
    server.bad[1] = error
    batcher = server.batcher()
    future = batcher.submit(1)
    await asyncio.sleep(0)
    future.cancel()
    server.open.set()
    await batcher.drain()
    assert (server.failures, server.orphans) == ([(1, error)], [])


async def test_fail_all_raises_at_once_and_later_answers_are_unclaimed() -> None:
    server = Server()
    server.open.clear()
    batcher = server.batcher()
    sent = batcher.submit(1)
    await asyncio.sleep(0)
    waiting = batcher.submit(2)
    batcher.fail_all(LookupError("closed"))
    for future in (sent, waiting):
        with pytest.raises(LookupError):
            await future
    server.open.set()
    await batcher.drain()
    assert (server.batches, server.orphans) == ([[1]], [(1, 2)])


async def test_no_caller_waits_on_when_the_loop_ends() -> None:
    server = Server()
    server.open.clear()
    batcher = server.batcher()
    sent = batcher.submit(1)
    await asyncio.sleep(0)
    waiting = batcher.submit(2)
    assert batcher._worker is not None
    batcher._worker.cancel()
    for future in (sent, waiting):
        with pytest.raises(asyncio.CancelledError):
            await future
    server.open.set()
    assert await answers(batcher.submit(3)) == [6]


async def test_no_caller_waits_on_when_the_loop_ends_before_the_worker_has_begun() -> None:
    server = Server()
    batcher = server.batcher()
    waiting = batcher.submit(1)
    assert batcher._worker is not None
    batcher._worker.cancel()
    await asyncio.wait([waiting], timeout=1)
    assert waiting.cancelled()
    await asyncio.wait_for(batcher.drain(), 1)
    assert await answers(batcher.submit(2)) == [4]


async def test_no_caller_waits_on_when_the_loop_ends_while_requests_are_sent_one_by_one() -> None:
    server = Server()
    server.bad = {1: REFUSED, 2: asyncio.CancelledError()}
    batcher = server.batcher()
    waiting = [batcher.submit(number) for number in (1, 2, 3)]
    await asyncio.wait(waiting, timeout=1)
    assert [future.cancelled() for future in waiting] == [False, True, True]


async def test_no_caller_waits_on_when_the_loop_ends_between_two_statements() -> None:
    server = Server()
    server.open.clear()
    batcher = server.batcher()
    first = batcher.submit(1)
    await asyncio.sleep(0)
    assert batcher._worker is not None
    worker = batcher._worker
    first.add_done_callback(lambda _: worker.cancel())
    later = batcher.submit(2)
    server.open.set()
    await asyncio.wait([later], timeout=1)
    assert later.cancelled()


async def test_a_partly_failed_batch_gives_each_request_its_own_outcome() -> None:
    outcomes: list[object] = [2, errors.StoreThrottled("Not now."), 6, errors.StoreThrottled("Not now.")]
    server = Server()

    async def send(batch: Sequence[int]) -> list[int]:
        raise PartlyFailed(outcomes)

    batcher: Batcher[int, int] = Batcher(
        send,
        lambda request, answer, sent_at: server.orphans.append((request, answer)),
        lambda request, error: server.failures.append((request, error)),
        send_abandoned=True,
    )
    waiting = [batcher.submit(number) for number in (1, 2)]
    batcher.post(3)
    batcher.post(4)
    assert await answers(waiting[0]) == [2]
    with pytest.raises(errors.StoreThrottled):
        await waiting[1]
    assert server.orphans == [(3, 6)]
    assert [request for request, _ in server.failures] == [4]


async def test_a_failed_start_does_not_block_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stack was full, or an interrupt came."""
    server = Server()
    batcher = server.batcher()

    def refuse(*_: object) -> None:
        raise RecursionError

    with monkeypatch.context() as patch:
        patch.setattr(Batcher, "_work", refuse)
        with pytest.raises(RecursionError):
            batcher.submit(1)
    async with asyncio.timeout(10):
        assert (await batcher.submit(2))[0] == 4
    assert server.batches == [[2]]
