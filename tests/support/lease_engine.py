"""For tests of the lease engine: the state in the database, and calls of the store that stop, fail or are counted."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, TypeVar
from uuid import UUID

import pytest

from interlock import AsyncInterlock, errors
from interlock.clock import boottime
from interlock.coordination.lease.grant import AsyncGrant
from interlock.stores.postgres.leases import PostgresLeases
from support.postgres import execute
from support.waiting import PATIENCE, eventually

T = TypeVar("T")

_OURS = "datname = current_database() AND application_name LIKE 'interlock %%'"


async def until(look: Callable[[], T], *, within: float = PATIENCE) -> T:
    """`eventually`, without blocking the event loop."""
    return await asyncio.to_thread(eventually, look, within=within)


async def reach(locks: AsyncInterlock) -> None:
    """Return when the database has answered once. A client with a short timeout gets an error while the machine is
    slow; this tries again."""
    while True:
        with suppress(errors.StoreError):
            async with locks.lease("feeds"):
                return


async def until_answered(task: "asyncio.Task[Any]") -> None:
    """Return when the future that the task waits for is done; the task itself has not run yet."""
    while not (waits_for := task._fut_waiter) or not waits_for.done():  # type: ignore[attr-defined]
        assert not task.done()
        await asyncio.sleep(0)


async def cancel_as_it_ends(block: AbstractAsyncContextManager[object]) -> None:
    """Cancel the block's task after its last line and before anything is released."""
    entered, go = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        async with block:
            entered.set()
            await go.wait()

    task = asyncio.create_task(run())
    await entered.wait()
    go.set()
    asyncio.get_running_loop().call_soon(task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task


def holder(url: str, name: str = "feeds") -> UUID | None:
    """The current grant of the lease in the database."""
    held = "SELECT grant_id FROM interlock.lease WHERE name = %s AND expires_at > interlock.now_v1()"
    rows = execute(url, held, name)
    return rows[0][0] if rows else None


def ends_at(url: str, name: str = "feeds") -> float:
    """The time on this machine's clock at which the database lets another holder have the lease, or a little before:
    the best of several reads, because the machine may pause in the middle of one."""

    def look() -> float:
        asked_at = boottime()
        left = "SELECT extract(epoch FROM expires_at - interlock.now_v1())::float8 FROM interlock.lease WHERE name = %s"
        return asked_at + float(execute(url, left, name)[0][0])

    return max(look() for _ in range(3))


def queue(url: str, name: str = "feeds") -> list[UUID]:
    """The grants that waiters have requested, in order of arrival."""
    waiting = "SELECT grant_id FROM interlock.waiter WHERE name = %s ORDER BY enqueued_at, grant_id"
    return [grant_id for (grant_id,) in execute(url, waiting, name)]


async def queued(locks: AsyncInterlock, url: str, name: str = "feeds", ttl: float = 30) -> "asyncio.Task[AsyncGrant]":
    """Start another waiter. Returns when it is in the queue."""
    before = len(queue(url, name))

    async def acquire() -> AsyncGrant:
        return await locks.lease(name, ttl=ttl).acquire()

    task = asyncio.create_task(acquire())
    await until(lambda: len(queue(url, name)) > before)
    return task


def sessions(url: str) -> dict[int, str]:
    """The server processes of Interlock's sessions, and the purpose of each."""
    rows = execute(url, f"SELECT pid, split_part(application_name, ' ', 2) FROM pg_stat_activity WHERE {_OURS}")
    return dict(rows)


def end_session(url: str, purpose: str) -> None:
    """Terminate Interlock's sessions for that purpose. Returns when they have ended."""
    for pid, what in sessions(url).items():
        if what == purpose:
            execute(url, "SELECT pg_terminate_backend(%s, 5000)", pid)


def take_away(url: str, name: str = "feeds") -> None:
    """Give the lease to another holder that does not release it."""
    stolen = (
        "UPDATE interlock.lease SET token = token + 1, grant_id = gen_random_uuid(), expires_at = %s WHERE name = %s"
    )
    execute(url, stolen, "infinity", name)


class Stop:
    """A point at which a method of the store stops until `go`. `reached` returns as soon as a call has come there.

    It can be prepared beforehand and switched on with `armed`, because batchers bind the store's methods when they are
    created.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.armed = True
        self._reached = asyncio.Event()
        self._go = asyncio.Event()

    async def reached(self) -> None:
        await self._reached.wait()

    def go(self) -> None:
        self._go.set()

    async def pass_by(self, args: tuple[Any, ...]) -> None:
        self.calls.append(args)
        if self.armed:
            self._reached.set()
            await self._go.wait()


def _replace(
    monkeypatch: pytest.MonkeyPatch, method: str, wrap: Callable[[Callable[..., Awaitable[Any]]], Callable[..., Any]]
) -> None:
    monkeypatch.setattr(PostgresLeases, method, wrap(getattr(PostgresLeases, method)))


def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the statements that are sent from now on."""
    sent: list[str] = []

    def wrap(original: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def noted(store: PostgresLeases, line: Any, query: str, *args: Any) -> Any:
            sent.append(query)
            return await original(store, line, query, *args)

        return noted

    _replace(monkeypatch, "_fetch", wrap)
    return sent


def stop_before(monkeypatch: pytest.MonkeyPatch, method: str) -> Stop:
    """Stop before the request is sent. Works only for root objects that have not been used yet."""
    stop = Stop()

    def wrap(original: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def stopped(store: PostgresLeases, *args: Any) -> Any:
            await stop.pass_by(args)
            return await original(store, *args)

        return stopped

    _replace(monkeypatch, method, wrap)
    return stop


def stop_after(monkeypatch: pytest.MonkeyPatch, method: str) -> Stop:
    """Stop after the store has carried out the request, and before its answer arrives."""
    stop = Stop()

    def wrap(original: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def stopped(store: PostgresLeases, *args: Any) -> Any:
            answer = await original(store, *args)
            await stop.pass_by(args)
            return answer

        return stopped

    _replace(monkeypatch, method, wrap)
    return stop


def fail(
    monkeypatch: pytest.MonkeyPatch, method: str, error: Exception, *, after: bool = False, times: int = 1
) -> None:
    """Let so many calls fail. With `after` the store has carried out the request, as with a lost answer."""
    left = times

    def wrap(original: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def failing(store: PostgresLeases, *args: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                return await original(store, *args)
            if after:
                await original(store, *args)
            raise error

        return failing

    _replace(monkeypatch, method, wrap)


def count_calls(monkeypatch: pytest.MonkeyPatch, method: str) -> list[tuple[Any, ...]]:
    """The arguments of each call from now on."""
    calls: list[tuple[Any, ...]] = []

    def wrap(original: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def counted(store: PostgresLeases, *args: Any) -> Any:
            calls.append(args)
            return await original(store, *args)

        return counted

    _replace(monkeypatch, method, wrap)
    return calls


def move_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Move this process's clock by so much at once, as after a suspension."""
    import sys

    from interlock import clock

    later = clock.boottime

    def moved() -> float:
        return later() + seconds

    for name, module in list(sys.modules.items()):
        if name.startswith("interlock.") and hasattr(module, "boottime"):
            monkeypatch.setattr(module, "boottime", moved)
