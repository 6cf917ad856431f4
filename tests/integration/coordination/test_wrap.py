"""Functions under a lease: `wait`, `skip` and `raise`, for coroutine functions and for plain ones."""

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import pytest

from interlock import AsyncInterlock, Interlock, errors
from support.lease_engine import holder, queue, take_away, until
from support.waiting import eventually

Busy = Literal["wait", "skip", "raise"]
HOW: tuple[Busy, ...] = ("wait", "skip", "raise")


@pytest.mark.parametrize("busy", HOW)
async def test_a_coroutine_function_runs_under_the_lease(locks: AsyncInterlock, interlock_url: str, busy: Busy) -> None:
    @locks.lease("feeds").wrap(busy=busy)
    async def add(one: int, *, other: int) -> int:
        """Adds."""
        assert holder(interlock_url) is not None
        return one + other

    assert await add(1, other=2) == 3
    assert (add.__name__, add.__doc__) == ("add", "Adds.")
    assert holder(interlock_url) is None


@pytest.mark.parametrize("busy", HOW)
def test_a_plain_function_runs_under_the_lease(sync_locks: Interlock, interlock_url: str, busy: Busy) -> None:
    @sync_locks.lease("feeds").wrap(busy=busy)
    def add(one: int, *, other: int) -> int:
        """Adds."""
        assert holder(interlock_url) is not None
        return one + other

    assert add(1, other=2) == 3
    assert (add.__name__, add.__doc__) == ("add", "Adds.")
    assert holder(interlock_url) is None


@pytest.mark.parametrize("busy", HOW)
async def test_an_error_of_a_coroutine_function_is_raised_and_the_lease_is_free(
    locks: AsyncInterlock, interlock_url: str, busy: Busy
) -> None:
    @locks.lease("feeds").wrap(busy=busy)
    async def broken() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        await broken()
    assert holder(interlock_url) is None


@pytest.mark.parametrize("busy", HOW)
def test_an_error_of_a_plain_function_is_raised_and_the_lease_is_free(
    sync_locks: Interlock, interlock_url: str, busy: Busy
) -> None:
    @sync_locks.lease("feeds").wrap(busy=busy)
    def broken() -> None:
        raise LookupError

    with pytest.raises(LookupError):
        broken()
    assert holder(interlock_url) is None


async def test_a_coroutine_function_waits_is_skipped_or_refused_while_the_lease_is_held(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    ran: list[str] = []

    async def work(how: str) -> str:
        ran.append(how)
        return how

    grant = await others.lease("feeds").acquire()
    lease = locks.lease("feeds")
    assert await lease.wrap(busy="skip")(work)("skip") is None
    with pytest.raises(errors.LeaseBusy, match="'feeds' is held already") as busy:
        await lease.wrap(busy="raise")(work)("raise")
    assert busy.value.name == "feeds"
    waiting = asyncio.ensure_future(lease.wrap()(work)("wait"))
    await until(lambda: queue(interlock_url))
    assert ran == []
    await grant.release()
    assert await waiting == "wait"
    assert ran == ["wait"]


def test_a_plain_function_waits_is_skipped_or_refused_while_the_lease_is_held(
    sync_locks: Interlock, interlock_url: str
) -> None:
    ran: list[str] = []

    def work(how: str) -> str:
        ran.append(how)
        return how

    lease = sync_locks.lease("feeds")
    grant = lease.acquire()
    with ThreadPoolExecutor(1) as other:
        assert other.submit(lease.wrap(busy="skip")(work), "skip").result() is None
        with pytest.raises(errors.LeaseBusy):
            other.submit(lease.wrap(busy="raise")(work), "raise").result()
        waiting = other.submit(lease.wrap(busy="wait")(work), "wait")
        eventually(lambda: queue(interlock_url))
        assert ran == []
        grant.release()
        assert waiting.result() == "wait"


@pytest.mark.parametrize("busy", HOW)
async def test_a_coroutine_function_is_cancelled_when_the_lease_is_lost(
    locks: AsyncInterlock, interlock_url: str, busy: Busy
) -> None:
    @locks.lease("feeds", ttl=30, renew_every=0.05).wrap(busy=busy)
    async def work() -> None:
        take_away(interlock_url)
        await asyncio.Event().wait()

    with pytest.raises(errors.LeaseLost):
        await work()


@pytest.mark.parametrize("busy", HOW)
def test_a_plain_function_that_lost_the_lease_raises_at_its_end(
    sync_locks: Interlock, interlock_url: str, busy: Busy
) -> None:
    @sync_locks.lease("feeds").wrap(busy=busy)
    def work() -> None:
        take_away(interlock_url)

    with pytest.raises(errors.LeaseLost):
        work()


async def test_a_wrapped_function_that_calls_itself_gets_an_error(locks: AsyncInterlock) -> None:
    @locks.lease("feeds").wrap()
    async def work(depth: int) -> int | None:
        return depth if depth == 0 else await work(depth - 1)

    with pytest.raises(errors.LeaseNested):
        await work(1)


async def test_methods_and_partial_functions_can_be_wrapped(locks: AsyncInterlock) -> None:
    lease = locks.lease("feeds")

    class Importer:
        feed = "news"

        @lease.wrap()
        async def run(self, times: int) -> str:
            return self.feed * times

    assert await Importer().run(2) == "newsnews"

    async def add(one: int, other: int) -> int:
        return one + other

    assert await lease.wrap()(functools.partial(add, 1))(2) == 3


async def rows() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("function", [print, rows, threading.Thread])
def test_other_functions_are_refused_by_an_async_lease(function: Callable[..., Awaitable[Any]]) -> None:
    with pytest.raises(
        errors.ConfigurationError,
        match=r"is not a coroutine function, but .* an AsyncInterlock: write `async def`, or .* `Interlock`",
    ):
        AsyncInterlock("postgresql://localhost/none").lease("feeds").wrap()(function)


def test_a_coroutine_function_is_refused_by_a_sync_lease() -> None:
    with pytest.raises(
        errors.ConfigurationError,
        match=r"sleep is a coroutine function, but .* an Interlock: write `def`, or .* `AsyncInterlock`",
    ):
        Interlock("postgresql://localhost/none").lease("feeds").wrap()(asyncio.sleep)


def lines() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize("function", [lines, rows])
def test_a_generator_function_is_refused_because_it_would_run_without_the_lease(function: Callable[..., Any]) -> None:
    with pytest.raises(errors.ConfigurationError, match="take the lease inside it"):
        Interlock("postgresql://localhost/none").lease("feeds").wrap()(function)


@pytest.mark.parametrize("busy", ["Wait", "", None, "error"])
def test_other_values_of_busy_are_refused(busy: Any) -> None:
    for lease in (AsyncInterlock("postgresql://localhost/none").lease("x"), Interlock("postgresql://h/n").lease("x")):
        with pytest.raises(errors.ConfigurationError, match="use 'wait', 'skip' or 'raise'"):
            lease.wrap(busy=busy)
