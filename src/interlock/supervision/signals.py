"""Forward signals to the command: it has no terminal and is not in this process group, so it gets none by itself."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, Self

from interlock.errors import CommandFailed
from interlock.supervision.supervised_command import SupervisedCommand

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_FORWARDED = (*_STOPPING, signal.SIGUSR1, signal.SIGUSR2)


class SignalForwarder:
    """Inside its block, signals go to the command. Before the command is started, a stopping signal ends the work.

    If this process was started to ignore a signal, as by `nohup`, the signal stays ignored, also for the command.
    SIGTERM is never ignored.
    """

    def __init__(self) -> None:
        self.stopped_by: int | None = None
        """The first stopping signal."""
        self._handled: list[int] = []
        self._command: SupervisedCommand | None = None
        self._expecting = False
        self._early: list[int] = []
        self._working: asyncio.Task[int] | None = None

    def __enter__(self) -> Self:
        self._handled = [signum for signum in _FORWARDED if signum == signal.SIGTERM or not _is_ignored(signum)]
        for signum in self._handled:
            asyncio.get_running_loop().add_signal_handler(signum, self._send, signum)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for signum in self._handled:
            asyncio.get_running_loop().remove_signal_handler(signum)

    @property
    def status(self) -> int:
        """The exit status after a stopping signal: 128 plus the signal's number."""
        return 128 + (self.stopped_by or 0)

    async def exit_status(self, work: Coroutine[Any, Any, int]) -> int:
        """Run `work` and return its status; if a signal ends it before a command is started, the signal's status."""
        self._working = asyncio.create_task(work)
        try:
            return await self._working
        except CommandFailed as failure:
            return failure.status
        except asyncio.CancelledError:
            if self.stopped_by is None:
                raise
            return self.status
        finally:
            self._working = None

    def expect_command(self) -> None:
        """Queue signals until `forward_to` is called: the command may run before the supervisor reports its start."""
        self._expecting = True

    def forward_to(self, command: SupervisedCommand) -> None:
        self._command = command
        for signum in self._early:
            command.forward(signum)

    def stop_forwarding(self) -> None:
        """Stop forwarding: the command has ended, and another may follow."""
        self._command = None
        self._expecting = False
        self._early.clear()

    def _send(self, signum: int) -> None:
        stops = signum in _STOPPING
        if stops and self.stopped_by is None:
            self.stopped_by = signum
        if self._command:
            self._command.forward(signum)
        elif self._expecting or not stops:
            self._early.append(signum)
        elif self._working:
            self._working.cancel()
            self._working = None  # a second signal does not interrupt the release


def _is_ignored(signum: int) -> bool:
    return signal.getsignal(signum) is signal.SIG_IGN
