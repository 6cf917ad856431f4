"""Run once: the first call runs, later calls get its result, and after a failure the next call runs."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import pytest

from interlock import AsyncInterlock, Interlock, errors
from support.lease_engine import fail, queue, take_away, until
from support.postgres import execute
from support.waiting import eventually

RECORDS = "SELECT key, value::jsonb -> 'result' FROM interlock.record"


class Charge:
    """An effect that must not be done twice."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.calls = 0

    async def __call__(self, *args: Any) -> Any:
        self.calls += 1
        self.begun.set()
        await self.go.wait()
        return {"receipt": self.calls, "args": list(args)}

    async def run(self, *args: Any) -> Any:
        return await self(*args)


async def test_the_first_call_runs_and_later_ones_get_its_result(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    charge = Charge()
    charge.go.set()
    first = await locks.once("charge:7", charge.run, 100, "EUR")
    assert first == {"receipt": 1, "args": [100, "EUR"]}
    assert await others.once("charge:7", charge.run, 100, "EUR") == first
    assert execute(interlock_url, RECORDS) == [("charge:7##once", first)]
    assert (await others.once("charge:8", charge.run))["receipt"] == 2


async def test_calls_during_the_run_wait_for_the_result(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    charge = Charge()
    calls = [asyncio.create_task(root.once("charge:7", charge.run)) for root in (locks, others, locks, others)]
    await charge.begun.wait()
    await until(lambda: len(queue(interlock_url, "charge:7##once")) == 3)
    charge.go.set()
    assert await asyncio.gather(*calls) == [{"receipt": 1, "args": []}] * 4
    assert charge.calls == 1


async def test_a_failure_is_not_recorded_and_the_next_takes_over(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def breaks() -> None:
        begun.set()
        await go.wait()
        raise ZeroDivisionError

    async def works() -> str:
        return "done"

    first = asyncio.create_task(locks.once("boot", breaks))
    await begun.wait()
    second = asyncio.create_task(others.once("boot", works))
    await until(lambda: queue(interlock_url, "boot##once"))
    go.set()
    with pytest.raises(ZeroDivisionError):
        await first
    assert await second == "done"


async def test_a_call_that_lost_the_lease_records_nothing(locks: AsyncInterlock, interlock_url: str) -> None:
    """The statement itself refuses: the loss has not been reported yet."""

    async def late() -> str:
        take_away(interlock_url, "boot##once")
        return "too late"

    with pytest.raises(errors.LeaseLost, match="another process may hold it"):
        await locks.once("boot", late)
    assert execute(interlock_url, RECORDS) == []


async def test_a_call_is_cancelled_when_the_loss_is_reported(locks: AsyncInterlock, interlock_url: str) -> None:
    async def slow() -> None:
        take_away(interlock_url, "boot##once")
        await asyncio.Event().wait()

    with pytest.raises(errors.LeaseLost):
        await locks.once("boot", slow, ttl=0.5)
    assert execute(interlock_url, RECORDS) == []


async def test_a_record_whose_acknowledgement_was_lost_is_written_again(
    interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "write", errors.ConnectionLost("It broke."), after=True, times=3)
    charge = Charge()
    charge.go.set()
    async with AsyncInterlock(interlock_url) as locks:
        assert (await locks.once("charge:7", charge.run))["receipt"] == 1
        assert (await locks.once("charge:7", charge.run))["receipt"] == 1


@dataclass
class Order:
    number: int
    lines: list[str]


async def test_other_arguments_under_the_same_key_are_a_conflict(locks: AsyncInterlock) -> None:
    await locks.once("bill:7", _number, Order(7, ["a"]), {"a": 1, "b": 2})
    assert await locks.once("bill:7", _number, Order(7, ["a"]), {"b": 2, "a": 1}) == 7
    for other in [(Order(7, ["b"]), {"a": 1, "b": 2}), (Order(7, ["a"]),), ()]:
        with pytest.raises(errors.OnceConflict, match="already run under the key 'bill:7'") as caught:
            await locks.once("bill:7", _number, *other)
        assert caught.value.key == "bill:7"


async def _number(order: Order, more: object) -> int:
    return order.number


async def test_a_run_without_a_recorded_result_is_unfinished(locks: AsyncInterlock) -> None:
    async def something() -> object:
        return object()

    with pytest.raises(errors.ConfigurationError, match="until then each call raises OnceInterrupted"):
        await locks.once("deploy", something, unfinished="raise")
    with pytest.raises(errors.OnceInterrupted):
        await locks.once("deploy", something, unfinished="raise")


async def test_a_result_that_cannot_be_recorded_is_refused(locks: AsyncInterlock, interlock_url: str) -> None:
    async def something(result: object = None) -> object:
        return object() if result is None else "x" * 300_000

    def plain() -> None: ...

    with pytest.raises(errors.ConfigurationError, match="needs arguments that can be written as JSON"):
        await locks.once("boot", something, object())
    with pytest.raises(
        errors.ConfigurationError, match=r"its result cannot be recorded: .*; until then each call runs it again"
    ):
        await locks.once("boot", something)
    with pytest.raises(errors.ConfigurationError, match="at most 262144 can be recorded"):
        await locks.once("boot", something, 1)
    with pytest.raises(errors.ConfigurationError, match="coroutine functions"):
        await locks.once("boot", plain)  # type: ignore[arg-type]
    with pytest.raises(errors.ConfigurationError, match="marks Interlock's own"):
        await locks.once("a##b", something)
    assert execute(interlock_url, RECORDS) == []


async def test_it_waits_no_longer_than_it_was_asked_to(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    charge = Charge()
    first = asyncio.create_task(locks.once("charge:7", charge.run))
    await charge.begun.wait()
    with pytest.raises(errors.LeaseTimeout):
        await others.once("charge:7", charge.run, timeout=0.1)
    charge.go.set()
    await first


async def test_a_nested_call_is_refused(locks: AsyncInterlock) -> None:
    async def outer() -> None:
        await locks.once("boot", outer)

    with pytest.raises(errors.LeaseNested):
        await locks.once("boot", outer)


def test_in_threads(sync_locks: Interlock, interlock_url: str) -> None:
    threads: list[threading.Thread] = []
    results: list[int] = []

    def work(number: int) -> int:
        threads.append(threading.current_thread())
        return number * number

    callers = [threading.Thread(target=lambda: results.append(sync_locks.once("square", work, 7))) for _ in range(5)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert results == [49] * 5
    assert len(threads) == 1
    assert threads[0] in callers, "it runs in the thread that calls"
    with pytest.raises(errors.OnceConflict):
        sync_locks.once("square", work, 8)
    with pytest.raises(ZeroDivisionError):
        sync_locks.once("broken", lambda: 1 // 0)
    assert sync_locks.once("broken", lambda: 1) == 1
    with pytest.raises(errors.ConfigurationError, match="plain functions"):
        sync_locks.once("other", _number)  # type: ignore[unused-coroutine]


FREE = "SELECT expires_at <= interlock.now_v1() FROM interlock.lease WHERE name = 'boot##once'"


def test_in_a_thread_a_lost_lease_is_released_only_when_the_function_has_ended(
    sync_locks: Interlock, interlock_url: str
) -> None:
    """As when the database's clock was set: the grant is not trusted any more, and the lease is still its own."""
    free = []

    async def lose() -> None:
        engine = sync_locks.engine()
        for grant in list(engine._held):
            engine._held.lose(grant, "clock")

    def work() -> None:
        sync_locks.run(lose())
        for _ in range(20):  # earlier requests have been answered by then
            with sync_locks.lease("other"):
                free.append(execute(interlock_url, FREE))

    with pytest.raises(errors.LeaseLost, match="clock was set"):
        sync_locks.once("boot", work, ttl=60)
    eventually(lambda: execute(interlock_url, FREE) == [(True,)])
    assert free == [[(False,)]] * 20
