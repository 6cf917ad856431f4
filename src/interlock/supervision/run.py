"""Run a command under the grant of a lease or the passage of a gate, which can be lost.

The holder, this process, renews the lease or gate. Each renewal moves the deadline up to which the supervisor lets the
command run; the deadline is before the moment at which another process could hold the lease. When the holder is
notified of a loss, all processes of the command get SIGTERM, and SIGKILL after a grace period. If the holder is
suspended or cut off, the supervisor kills the command at the deadline; if the holder is killed, at once. The lease or
gate is released only when no process of the command is left.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from interlock.errors import CommandAtLarge, InterlockError
from interlock.logs import events
from interlock.supervision.signals import SignalForwarder
from interlock.supervision.supervised_command import CommandResult, SupervisedCommand
from interlock.supervision.supervisor_process import SupervisorProcess

log = events(__name__)


class HeldGrant(Protocol):
    """The grant of a lease or the passage of a gate. Its loss cancels the task that runs the command."""

    @property
    def trusted_until(self) -> float: ...

    def on_renewed(self, callback: Callable[[float], object]) -> None: ...

    def error(self) -> InterlockError:
        """Returns the error that reports the loss."""


async def run_under(
    held: HeldGrant,
    argv: Sequence[str],
    signals: SignalForwarder,
    *,
    environment: Mapping[str, str],
    grace: float,
    supervisor: SupervisorProcess | None = None,
) -> CommandResult:
    """Run the command while the grant may be trusted. No process of the command is left when this returns or raises.

    `grace` is the time between SIGTERM and SIGKILL after a loss. `supervisor` is one that was started before; None
    starts one. Raises `CommandNotStarted`.
    """
    signals.expect_command()
    command = await SupervisedCommand.start(
        argv, trust_until=held.trusted_until, env=environment, supervisor=supervisor
    )
    held.on_renewed(command.extend)
    command.extend(held.trusted_until)  # it may have been renewed while the command was started
    signals.forward_to(command)
    try:
        return await command.wait()
    except asyncio.CancelledError:
        await command.stop(grace)
        raise


def status_of(result: CommandResult, held: HeldGrant, **facts: str) -> int:
    """Returns the command's exit status. Raises the grant's error if its loss ended the command.

    Raises `CommandAtLarge` if processes of the command may still run. `facts` are fields for the log.
    """
    if result.left_behind:
        log.warning("command.left_behind", extra={**facts, "processes": result.left_behind})
    if not result.all_ended:
        raise CommandAtLarge(
            "Both supervisors of the command were killed, so processes of the command may still run: find and end "
            "them on this machine."
        )
    if result.ended_by == "deadline":
        raise held.error()
    return result.exit_status
