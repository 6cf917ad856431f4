"""One root object on several event loops: each has its own connections, and an ended loop leaves none open."""

import asyncio
import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import uvloop

from interlock import AsyncInterlock, Interlock
from support.lease_engine import holder, queue, sessions
from support.waiting import eventually


@pytest.fixture
def shared(interlock_url: str) -> AsyncInterlock:
    return AsyncInterlock(interlock_url, replica="one")


def on_a_loop(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(work())


def test_tasks_on_several_loops_take_turns(shared: AsyncInterlock) -> None:
    lease = shared.lease("feeds")
    inside = most = rounds = 0

    async def work() -> None:
        nonlocal inside, most, rounds
        async with shared:
            for _ in range(10):
                async with lease:
                    inside, rounds = inside + 1, rounds + 1
                    most = max(most, inside)
                    await asyncio.sleep(0)
                    inside -= 1

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(on_a_loop, [work] * 3))
    assert (most, rounds) == (1, 30)


def test_a_release_on_one_loop_wakes_a_waiter_on_another(shared: AsyncInterlock, interlock_url: str) -> None:
    waits = threading.Event()

    async def hold() -> None:
        async with shared, shared.lease("feeds"):
            waits.set()
            await asyncio.to_thread(eventually, lambda: queue(interlock_url))

    async def wait() -> int:
        async with shared, shared.lease("feeds") as grant:
            return grant.token

    with ThreadPoolExecutor(2) as threads:
        holding = threads.submit(on_a_loop, hold)
        assert waits.wait(20)
        assert threads.submit(on_a_loop, wait).result() > 0
        holding.result()
    assert sessions(interlock_url) == {}


def test_closing_it_on_one_loop_leaves_it_open_on_another(shared: AsyncInterlock) -> None:
    held, closed = threading.Event(), threading.Event()

    async def hold() -> bool:
        async with shared, shared.lease("feeds") as grant:
            held.set()
            await asyncio.to_thread(closed.wait, 20)
            return grant.lost

    async def open_and_close() -> None:
        async with shared, shared.lease("other"):
            pass

    with ThreadPoolExecutor(2) as threads:
        holding = threads.submit(on_a_loop, hold)
        assert held.wait(20)
        threads.submit(on_a_loop, open_and_close).result()
        closed.set()
        assert holding.result() is False


def test_threads_use_the_loop_of_the_chosen_factory(interlock_url: str) -> None:
    with Interlock(interlock_url, loop_factory=uvloop.new_event_loop) as locks, locks.lease("feeds") as grant:
        assert isinstance(locks.loop_thread().loop, uvloop.Loop)
        assert holder(interlock_url) == grant.grant_id
    assert sessions(interlock_url) == {}


def test_the_call_after_a_failed_loop_factory_makes_a_loop(interlock_url: str) -> None:
    outcomes: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, no_descriptors_left]
    locks = Interlock(interlock_url, loop_factory=lambda: outcomes.pop()())
    with pytest.raises(OSError, match="Too many open files"):
        locks.open()
    with locks, locks.lease("feeds") as grant:
        grant.check()


def no_descriptors_left() -> asyncio.AbstractEventLoop:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


FORGETFUL = """
import asyncio, sys
from interlock import AsyncInterlock
from support.lease_engine import sessions
from support.waiting import eventually

url = sys.argv[1]
locks = AsyncInterlock(url)

async def forget_to_close():
    renewed = locks.metrics.snapshot().renewed_leases
    async with locks.lease("feeds", ttl=30, renew_every=0.3):
        await asyncio.to_thread(eventually, lambda: locks.metrics.snapshot().renewed_leases > renewed)

async def close():
    async with locks:
        pass

for _ in range(4):
    asyncio.run(forget_to_close())
assert len(locks._stores) == len(locks._engines) == 1
left = [], ["acquire", "heartbeat"]  # uvloop takes them along
eventually(lambda: sorted(sessions(url).values()) in left)
asyncio.run(close())
eventually(lambda: sessions(url) == {})
"""


def test_the_connections_of_a_loop_that_ended_without_close_are_closed_by_the_next(interlock_url: str) -> None:
    tests = Path(__file__).parents[2]
    command = [sys.executable, "-W", "ignore", "-c", FORGETFUL, interlock_url]
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(tests)]))
    subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, check=True, timeout=50)
