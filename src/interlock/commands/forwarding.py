"""Signals: the command has no terminal and is not in our process group, so what we are sent, it is sent."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from interlock.commands.supervised import SupervisedCommand

T = TypeVar("T")

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_FORWARDED = (*_STOPPING, signal.SIGUSR1, signal.SIGUSR2)


class Forwarding:
    """While it is entered, a signal goes to the command, or waits for it until `go_to`.

    One that this process was started to ignore, as `nohup` does, stays ignored.
    """

    def __init__(self) -> None:
        self.stopped_by: int | None = None
        """The first signal that asked us to stop."""
        self._handled: list[int] = []
        self._command: SupervisedCommand | None = None
        self._early: list[int] = []
        self._waiting: asyncio.Task[Any] | None = None

    def __enter__(self) -> Self:
        self._handled = [signum for signum in _FORWARDED if signal.getsignal(signum) is not signal.SIG_IGN]
        for signum in self._handled:
            asyncio.get_running_loop().add_signal_handler(signum, self._send, signum)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for signum in self._handled:
            asyncio.get_running_loop().remove_signal_handler(signum)

    async def unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What has to be done before there is a command; None if a signal asks us to stop before that is done."""
        task = asyncio.create_task(work)
        self._waiting = task
        try:
            return await task
        except asyncio.CancelledError:
            if self.stopped_by is None:
                raise
            return None
        finally:
            self._waiting = None

    def go_to(self, command: SupervisedCommand) -> None:
        self._command = command
        for signum in self._early:
            command.forward(signum)

    def come_back(self) -> None:
        """The command has ended, and there may be another."""
        self._command = None
        self._early.clear()

    def _send(self, signum: int) -> None:
        stops = signum in _STOPPING
        if stops and self.stopped_by is None:
            self.stopped_by = signum
        if self._command:
            self._command.forward(signum)
            return
        self._early.append(signum)
        if stops and self._waiting:
            self._waiting.cancel()
