"""Run a command under the gate: no process of the command survives the loss of the gate or the end of this process."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from interlock import errors
from interlock.gate.gate import AsyncGate
from interlock.gate.passage import AsyncPassage
from interlock.gate.schema_version import Verdict
from interlock.gate.times import Timing
from interlock.logs import events
from interlock.supervision import CommandResult, SignalForwarder, run_under, status_of

log = events(__name__)


async def run_command(gate: AsyncGate, argv: Sequence[str], timing: Timing, environment: Mapping[str, str]) -> int:
    """Pass the gate and, if a migration is needed, run the command. Returns its exit status, or 0 if it did not run.

    The command gets `environment` and two more variables: the gate's name and fence. A signal before the command runs
    ends the wait, and the status is 128 plus the signal's number; later signals go to the command.
    """
    with SignalForwarder() as signals:
        return await signals.exit_status(_pass(gate, signals, argv, timing, environment))


async def check_by_command(line: str, gate: str, environment: Mapping[str, str] | None = None) -> Verdict:
    """Run a shell command that checks the schema: exit status 0 means current, 1 means behind, 3 means too new."""
    process = await asyncio.create_subprocess_shell(line, env=environment)
    try:
        status = await process.wait()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):  # it has ended meanwhile
            process.kill()
        await process.wait()
        raise
    match status:
        case 0:
            return Verdict.CURRENT
        case 1:
            return Verdict.BEHIND
        case 3:
            return Verdict.TOO_NEW
    raise errors.CheckFailed(
        f"The check command ended with status {status}: it has to exit with "
        "0 (current), 1 (to be migrated) or 3 (too new for this release).",
        gate=gate,
    )


async def _pass(
    gate: AsyncGate, signals: SignalForwarder, argv: Sequence[str], timing: Timing, environment: Mapping[str, str]
) -> int:
    async with gate as passage:
        if passage.needed:
            variables = {"INTERLOCK_GATE": passage.gate, "INTERLOCK_GATE_FENCE": str(passage.fence)}
            result = await run_under(
                passage, argv, signals, environment={**environment, **variables}, grace=timing.kill_grace
            )
            passage.check()
            if gate.has_own_role or signals.stopped_by or not _ended_normally(result):
                await _end_sessions(passage)
            _raise_failure(passage, result)
    return 0


def _ended_normally(result: CommandResult) -> bool:
    """False if the command may have been killed: a killed client leaves its statement running in the server."""
    return result.ended_by == "itself" and result.exit_status <= 128 and not result.left_behind


async def _end_sessions(passage: AsyncPassage) -> None:
    try:
        await passage.end_own_sessions()
    except errors.PredecessorAlive as error:
        log.error("gate.left_open", extra={"gate": passage.gate, "why": str(error)})
        passage.leave_open()


def _raise_failure(passage: AsyncPassage, result: CommandResult) -> None:
    """Raise an error if the command failed; the gate then records that error."""
    if not result.all_ended:
        passage.leave_open()
    if status := status_of(result, passage, gate=passage.gate):
        raise errors.CommandFailed(f"The migration ended with status {status}.", status=status)
