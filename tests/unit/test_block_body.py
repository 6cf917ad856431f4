"""The work under a lock is cancelled when the lock is lost, and other cancellations are kept."""

import asyncio

import pytest

from interlock.block_body import Body


@pytest.mark.parametrize("others", [True, False])
async def test_a_cancellation_in_the_step_in_which_the_body_ends_is_not_lost(others: bool) -> None:
    async def block() -> bool:
        task = asyncio.current_task()
        assert task
        body = Body()
        body.cancel("lost")
        if others:
            asyncio.get_running_loop().call_soon(task.cancel)
        return await body.end(None)

    assert await asyncio.create_task(block()) is others
