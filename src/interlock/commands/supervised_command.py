"""Our side of a supervised command: start it, extend its trust, signal it, stop it, learn how it ended.

`interlock.commands.supervisor` says which processes there are, what each of them does, and what is not covered.
"""

import asyncio
import math
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from interlock.commands.supervisor_process import SupervisorProcess, not_started, order

_EXIT_ENDED = 124

EndedBy = Literal["itself", "stop", "deadline", "supervisor killed"]

_CAUSES: Mapping[str, EndedBy] = {
    "itself": "itself",
    "stop": "stop",
    "eof": "stop",  # we live: it was `SupervisedCommand` that closed the channel
    "deadline": "deadline",
    "supervisor-killed": "supervisor killed",
}


class CommandResult(NamedTuple):
    """How a command ended."""

    exit_status: int
    """The command's own, as a shell reports it (128 + n for signal n); 124 if its trust ended before it was started."""
    ended_by: EndedBy
    left_behind: int
    """How many processes it left in the background when it ended by itself; they have been ended as well."""
    all_ended: bool
    """That nothing of it is left. False only if nobody was left to see to it: guard and supervisor killed at once."""


class SupervisedCommand:
    """A command that cannot outlive its trust, nor this process.

    Make one with `start`, and `wait` for it in the end: nothing of the command is left when that returns.
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
        """Run `argv` with our standard streams until `trust_until`, a moment of `clock.boottime()`, unless extended.

        Returns when it runs. Raises `CommandNotFound` or `CommandNotExecutable`. A moment that has passed already is no
        error: the command is not run, and `wait` says ``deadline``. `supervisor` has been started before, if given.
        """
        lacking = cwd if cwd and not os.path.isdir(cwd) else argv[0]  # noqa: PTH112 - pathlib's fails where we may not look
        line = order(argv, _checked(trust_until), env, cwd)
        command = cls((supervisor if supervisor and supervisor.is_up else SupervisorProcess()).take())
        await command._run(line, lacking)
        return command

    @property
    def pid(self) -> int | None:
        """The command's process, and process group; None if it was never started."""
        started = self._reports.get("started")
        return None if started is None else int(started)

    def extend(self, trust_until: float) -> None:
        """Let it run until that moment of `clock.boottime()`: sooner or later than before, the last word counts."""
        self._send(f"trust {_checked(trust_until)!r}")

    def forward(self, signum: int) -> None:
        """Send a signal to the command's process group."""
        if signum not in signal.valid_signals():
            raise ValueError(f"no such signal: {signum}")
        self._send(f"signal {int(signum)}")

    async def stop(self, grace: float) -> CommandResult:
        """SIGTERM to everything of it, after `grace` seconds SIGKILL to what is left; returns when nothing is."""
        if not self._send(f"stop {_checked(grace)!r}"):
            self._hang_up()
        return await self.wait()

    async def wait(self) -> CommandResult:
        """Wait until nothing of it is left. May be cancelled and called again, and the command does not notice."""
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

    async def _run(self, line: bytes, lacking: str | os.PathLike[str]) -> None:
        """Wait until the supervisor has said whether the command runs; if we cannot stay, nor may the command."""
        try:
            with suppress(OSError):  # somebody killed it, and its end is its answer
                await asyncio.get_running_loop().sock_sendall(self._control, line)
            await self._answered.wait()
        except asyncio.CancelledError:
            self._hang_up()
            await asyncio.shield(self._reading)
            raise
        if "failed" in self._reports:
            await self._reading
            code, _, text = self._reports["failed"].partition(" ")
            raise not_started(lacking, OSError(int(code), text))

    def _send(self, line: str) -> bool:
        """Whether it could be sent without waiting. A supervisor that is gone, or does not read, is no error here."""
        message = f"{line}\n".encode()
        try:
            return self._control.send(message) == len(message)
        except OSError:
            return False

    def _hang_up(self) -> None:
        """To the supervisor this is our death: it kills everything at once."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    async def _read_until_end(self) -> None:
        """The channel ends when guard and supervisor have: they end last of all."""
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
        except ConnectionResetError:  # it ended without reading our last line
            return b""

    def _note(self, line: str) -> None:
        kind, _, value = line.partition(" ")
        self._reports[kind] = value
        self._answered.set()
        if kind == "ended":
            self._process.send_signal(signal.SIGCONT)  # or a guard that somebody stopped would never go


def _checked(seconds: float) -> float:
    if math.isnan(seconds):
        raise ValueError("not a number of seconds")
    return seconds
