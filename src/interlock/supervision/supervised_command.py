"""The holder's side of a supervised command: start it, extend its trust, signal it, stop it, get its result.

`interlock.supervision.supervisor` describes the processes, the work of each, and the cases that are not covered.
"""

import asyncio
import math
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from interlock.supervision.supervisor_process import SupervisorProcess, not_started, order

_EXIT_ENDED = 124

EndedBy = Literal["itself", "stop", "deadline", "supervisor killed"]

_CAUSES: Mapping[str, EndedBy] = {
    "itself": "itself",
    "stop": "stop",
    "eof": "stop",  # this process lives, so `SupervisedCommand` has closed the channel
    "deadline": "deadline",
    "supervisor-killed": "supervisor killed",
}


class CommandResult(NamedTuple):
    """The result of a command."""

    exit_status: int
    """The exit status as a shell reports it (128 + n for signal n); 124 if the trust ended before the command began."""
    ended_by: EndedBy
    left_behind: int
    """The number of processes that the command left in the background when it ended; they have been ended as well."""
    all_ended: bool
    """True if no process of the command is left. False only if guard and supervisor were killed at the same moment."""


class SupervisedCommand:
    """A command that ends when its trust is over, or when this process ends.

    Create it with `start`, and call `wait` at the end: no process of the command is left when `wait` returns.
    """

    def __init__(self, supervisor: SupervisorProcess) -> None:
        self._process = supervisor.process
        self._control = supervisor.control
        self._reports: dict[str, str] = {}
        self._answered = asyncio.Event()
        self._reading = asyncio.create_task(self._read_until_end())

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        trust_until: float,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        supervisor: SupervisorProcess | None = None,
    ) -> "SupervisedCommand":
        """Run `argv` with this process's standard streams until `trust_until`, a moment of `clock.boottime()`.

        Returns when the command runs. Raises `CommandNotFound` or `CommandNotExecutable`. `extend` moves the moment. A
        moment that has passed already is not an error: the command is not run, and `ended_by` in `wait`'s result is
        ``deadline``. `supervisor` is one that was started before; None starts one.
        """
        missing = cwd if cwd and not os.path.isdir(cwd) else argv[0]  # noqa: PTH112 - pathlib's raises for an unreadable directory
        line = order(argv, _checked(trust_until), env, cwd)
        command = cls((supervisor if supervisor and supervisor.is_up else SupervisorProcess()).take())
        await command._run(line, missing)
        return command

    @property
    def pid(self) -> int | None:
        """The pid of the command, which is also its process group; None if the command was never started."""
        started = self._reports.get("started")
        return None if started is None else int(started)

    def extend(self, trust_until: float) -> None:
        """Let the command run until that moment of `clock.boottime()`. The last call counts, even if it is earlier."""
        self._send(f"trust {_checked(trust_until)!r}")

    def forward(self, signum: int) -> None:
        """Send a signal to the command's process group."""
        if signum not in signal.valid_signals():
            raise ValueError(f"no such signal: {signum}")
        self._send(f"signal {int(signum)}")

    async def stop(self, grace: float) -> CommandResult:
        """Send SIGTERM to the command's processes, SIGKILL to the remaining ones after `grace` seconds, and wait."""
        if not self._send(f"stop {_checked(grace)!r}"):
            self._hang_up()
        return await self.wait()

    async def wait(self) -> CommandResult:
        """Wait until no process of the command is left. Cancelling this does not affect the command; call it again."""
        await asyncio.shield(self._reading)
        return CommandResult(
            exit_status=self._exit_status(),
            ended_by=_CAUSES[self._reports.get("ended", "supervisor-killed")],
            left_behind=int(self._reports.get("left-behind", 0)),
            all_ended="ended" in self._reports,
        )

    def _exit_status(self) -> int:
        if "exited" in self._reports:
            return int(self._reports["exited"])
        if "started" in self._reports:  # killed, by the supervisor or along with it
            return 128 + int(self._reports.get("signalled", signal.SIGKILL))
        return _EXIT_ENDED

    async def _run(self, line: bytes, missing: str | os.PathLike[str]) -> None:
        """Send the command to the supervisor and wait until it runs. If this is cancelled, the command is killed."""
        try:
            with suppress(OSError):  # it was killed; the end of the channel is its answer
                await asyncio.get_running_loop().sock_sendall(self._control, line)
            await self._answered.wait()
        except asyncio.CancelledError:
            self._hang_up()
            await asyncio.shield(self._reading)
            raise
        if "failed" in self._reports:
            await self._reading
            code, _, text = self._reports["failed"].partition(" ")
            raise not_started(missing, OSError(int(code), text))

    def _send(self, line: str) -> bool:
        """Returns True if the line was sent at once. A supervisor that is gone or does not read is not an error."""
        message = f"{line}\n".encode()
        try:
            return self._control.send(message) == len(message)
        except OSError:
            return False

    def _hang_up(self) -> None:
        """Close the channel. The supervisor takes that for the end of this process, and kills the command at once."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    async def _read_until_end(self) -> None:
        """Read reports until the channel ends. It ends when guard and supervisor have ended, which end last."""
        received = b""
        try:
            while data := await self._receive():
                *lines, received = (received + data).split(b"\n")
                for line in lines:
                    self._note(line.decode())
        finally:
            self._control.close()
            self._answered.set()
        self._process.wait()

    async def _receive(self) -> bytes:
        try:
            return await asyncio.get_running_loop().sock_recv(self._control, 4096)
        except ConnectionResetError:  # it ended without reading the last line sent
            return b""

    def _note(self, line: str) -> None:
        kind, _, value = line.partition(" ")
        self._reports[kind] = value
        self._answered.set()
        if kind == "ended":
            self._process.send_signal(signal.SIGCONT)  # otherwise a suspended guard would never end


def _checked(seconds: float) -> float:
    if math.isnan(seconds):
        raise ValueError("not a number of seconds")
    return seconds
