"""Runs any command under the gate: no part of it lives on when the gate is lost, or when we are killed."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from interlock import errors
from interlock.commands import CommandResult, Forwarding, SupervisedCommand
from interlock.gate.gate import AsyncGate
from interlock.gate.passage import AsyncPassage
from interlock.gate.timing import Timing
from interlock.gate.verdict import Verdict
from interlock.logs import events

log = events(__name__)


async def run_command(gate: AsyncGate, argv: Sequence[str], timing: Timing, environment: Mapping[str, str]) -> int:
    """Pass the gate, run the command if it is needed there, and return its exit status (0 if it was not needed).

    The command gets `environment`, and in it which passage it belongs to.
    """
    try:
        async with gate as passage:
            if passage.needed:
                ours = {"INTERLOCK_GATE": passage.gate, "INTERLOCK_GATE_FENCE": str(passage.fence)}
                start = partial(SupervisedCommand.start, argv, env={**environment, **ours})
                await _supervised(passage, start, timing, own_role=gate.has_own_role)
    except errors.CommandFailed as error:
        return error.status
    return 0


async def ask_command(line: str, gate: str) -> Verdict:
    """Ask a shell command whether the schema is current: its status is 0 for yes, 1 for no, 3 for too new."""
    process = await asyncio.create_subprocess_shell(line)
    match await process.wait():
        case 0:
            return Verdict.CURRENT
        case 1:
            return Verdict.BEHIND
        case 3:
            return Verdict.TOO_NEW
        case status:
            raise errors.CheckFailed(
                f"The check command ended with status {status}: it has to answer with "
                "0 (current), 1 (to be migrated) or 3 (too new for this release).",
                gate=gate,
            )


async def _supervised(
    passage: AsyncPassage, start: Callable[..., Awaitable[SupervisedCommand]], timing: Timing, *, own_role: bool
) -> None:
    with Forwarding() as forwarding:
        command = await start(trust_until=passage.trusted_until)
        forwarding.go_to(command)
        passage.on_beat(command.extend)
        try:
            result = await command.wait()
        except asyncio.CancelledError:  # the gate is lost, or we are to stop
            await command.stop(timing.kill_grace)
            raise
        passage.check()
        if own_role or forwarding.stopped_by or not _ended_in_good_order(result):
            await _clear_up(passage)
    _judge(passage, result)


def _ended_in_good_order(result: CommandResult) -> bool:
    """A client that is killed leaves its statement running in the server."""
    return result.ended_by == "itself" and result.exit_status <= 128 and not result.left_behind


async def _clear_up(passage: AsyncPassage) -> None:
    try:
        await passage.end_own_sessions()
    except errors.PredecessorAlive as error:
        log.error("gate.left_open", extra={"gate": passage.gate, "why": str(error)})
        passage.leave_open()


def _judge(passage: AsyncPassage, result: CommandResult) -> None:
    if result.left_behind:
        log.warning("gate.left_behind", extra={"gate": passage.gate, "processes": result.left_behind})
    if not result.all_ended:
        passage.leave_open()
        raise errors.CommandAtLarge(
            "The migration command's supervisors were both killed, and something of it may live on: look for it "
            "on this machine; the next replica at the gate ends its database sessions before it starts.",
            gate=passage.gate,
        )
    if status := result.exit_status:
        raise errors.CommandFailed(f"The migration ended with status {status}.", gate=passage.gate, status=status)
