"""A coroutine that begins in the middle of whatever starts it, and goes on as a task."""

import asyncio
import inspect

import pytest

from interlock.coordination import head_start


async def test_it_begins_at_once_and_goes_on_when_what_it_waits_for_is_there() -> None:
    told: list[str] = []
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        told.append("begun")
        told.append(await ready)
        await asyncio.sleep(0)
        told.append("ended")

    task = head_start.begin(work())
    assert told == ["begun"]
    ready.set_result("gone on")
    assert task is not None
    await task
    assert told == ["begun", "gone on", "ended"]


async def test_what_waits_for_nothing_has_ended() -> None:
    async def work() -> None:
        pass

    assert head_start.begin(work()) is None


async def test_an_error_at_its_begin_is_for_whoever_begins_it() -> None:
    async def work() -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        head_start.begin(work())


async def test_an_error_of_what_it_waits_for_comes_up_in_it() -> None:
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    told: list[BaseException] = []

    async def work() -> None:
        try:
            await failed
        except OSError as error:
            told.append(error)
        raise ValueError

    task = head_start.begin(work())
    failed.set_exception(error := OSError())
    assert task is not None
    with pytest.raises(ValueError):  # noqa: PT011 # the type is the point
        await task
    assert told == [error]


async def test_it_is_told_that_it_is_cancelled_before_and_after_the_task_has_begun() -> None:
    told: list[type[BaseException]] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except BaseException as error:
            told.append(type(error))
            await asyncio.sleep(0)
            raise

    late = head_start.begin(work())
    await asyncio.sleep(0)
    early = head_start.begin(work())
    for task in (early, late):
        assert task is not None
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
    assert told == [asyncio.CancelledError] * 2


async def test_a_task_takes_it_in_every_python() -> None:
    """From 3.12 on none takes a generator."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        await ready

    task = head_start.begin(work())
    assert task is not None
    assert inspect.iscoroutine(task.get_coro())
    ready.set_result(None)
    await task
