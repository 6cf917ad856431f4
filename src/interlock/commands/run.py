"""One run of a command under something that can be lost: the grant of a lease, or the passage of a gate.

The holder renews it, and each renewal moves the moment up to which the supervisor lets the command run; that moment
comes before anybody else could hold it. When the holder learns of the loss, everything of the command gets SIGTERM, and
SIGKILL after a grace. When the holder is stopped or cut off, the supervisor kills the command in time; when the holder
is killed, at once. The lease or gate is given back only when nothing of the command is left.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from interlock.commands.signals import SignalForwarder
from interlock.commands.supervised_command import CommandResult, SupervisedCommand
from interlock.commands.supervisor_process import SupervisorProcess
from interlock.errors import CommandAtLarge, InterlockError
from interlock.logs import events

log = events(__name__)


class HeldGrant(Protocol):
    """The grant or the passage. Its loss cancels the task that runs the command."""

    @property
    def trusted_until(self) -> float: ...

    def on_renewed(self, callback: Callable[[float], object]) -> None: ...

    def error(self) -> InterlockError:
        """The error of the loss."""


async def run_under(
    held: HeldGrant,
    argv: Sequence[str],
    signals: SignalForwarder,
    *,
    environment: Mapping[str, str],
    grace: float,
    supervisor: SupervisorProcess | None = None,
) -> CommandResult:
    """Run the command for as long as what is held may be trusted; nothing of it is left when this returns or raises.

    `grace` is the time between SIGTERM and SIGKILL after a loss. `supervisor` has been started before, if given. Raises
    `CommandNotStarted`.
    """
    signals.expect_command()
    command = await SupervisedCommand.start(
        argv, trust_until=held.trusted_until, env=environment, supervisor=supervisor
    )
    held.on_renewed(command.extend)
    command.extend(held.trusted_until)  # it may have been renewed while the command was started
    signals.go_to(command)
    try:
        return await command.wait()
    except asyncio.CancelledError:
        await command.stop(grace)
        raise


def status_of(result: CommandResult, held: HeldGrant, **facts: str) -> int:
    """The command's exit status. Raises the error of the loss, if that ended it, or `CommandAtLarge`.

    `facts` are for the log.
    """
    if result.left_behind:
        log.warning("command.left_behind", extra={**facts, "processes": result.left_behind})
    if not result.all_ended:
        raise CommandAtLarge(
            "Both supervisors of the command were killed, and something of it may live on: look for it on this machine."
        )
    if result.ended_by == "deadline":
        raise held.error()
    return result.exit_status
