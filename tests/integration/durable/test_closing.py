"""A replica that is closed during an activity that takes hours."""

import asyncio

import pytest

from interlock import AsyncDurable, Attempt, Orchestrations, Run, errors
from support.postgres import execute

begun: list[int] = []
go_on = asyncio.Event()

work = Orchestrations("closing")


@work.activity(timeout=3600, interruptible=True)
async def take_hours(attempt: Attempt, url: str) -> int:
    begun.append(attempt.number)
    await go_on.wait()
    return attempt.number


@work.orchestration()
async def long(run: Run, url: str) -> int:
    return await run.call(take_hours, url)


@pytest.mark.timeout(120)
async def test_an_interruptible_activity_is_left_to_other_replicas(interlock_url: str) -> None:
    """The closing is the test: it would wait for an hour."""
    async with AsyncDurable(work, url=interlock_url) as durable:
        await durable.start(long, "it", interlock_url)
        while not begun:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert begun == [1]
    assert execute(interlock_url, "SELECT 1 FROM interlock.orchestration WHERE finished_at IS NOT NULL") == []
    go_on.set()
    async with AsyncDurable(work, url=interlock_url) as durable:
        assert await durable.handle(long, "it").wait(60) >= 2


def test_a_plain_function_cannot_be_interrupted() -> None:
    def plain(attempt: Attempt, value: int) -> int:
        return value

    with pytest.raises(errors.ConfigurationError, match="make 'plain' an `async def`"):
        Orchestrations().activity(interruptible=True)(plain)
