"""Signals that arrive while there is no command."""

import asyncio
import signal

import pytest

from interlock.errors import CommandFailed
from interlock.supervision import SignalForwarder

STOPPING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]


async def forever() -> int:
    await asyncio.Event().wait()
    return 0


@pytest.mark.parametrize("signum", STOPPING)
async def test_a_stopping_signal_ends_the_work(signum: signal.Signals) -> None:
    with SignalForwarder() as signals:
        asyncio.get_running_loop().call_soon(signal.raise_signal, signum)
        assert await signals.exit_status(forever()) == 128 + signum


async def test_a_second_signal_does_not_interrupt_the_cleanup_after_the_first() -> None:
    given_back, arrived = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, arrived.set)

    async def work() -> int:
        try:
            return await forever()
        finally:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGWINCH)
            await arrived.wait()  # and so has the one before it
            given_back.set()

    with SignalForwarder() as signals:
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        assert await signals.exit_status(work()) == 128 + signal.SIGINT
    asyncio.get_running_loop().remove_signal_handler(signal.SIGWINCH)
    assert given_back.is_set()


async def test_a_command_that_failed_gives_its_status() -> None:
    async def work() -> int:
        raise CommandFailed("The command ended with status 3.", status=3)

    with SignalForwarder() as signals:
        assert await signals.exit_status(work()) == 3


async def test_a_cancellation_without_a_signal_is_raised() -> None:
    async def run() -> None:
        with SignalForwarder() as signals:
            await signals.exit_status(forever())

    running = asyncio.create_task(run())
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
