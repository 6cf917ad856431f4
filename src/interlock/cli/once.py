"""``interlock once``: runs a command until it has succeeded once, on any machine."""

import os
from typing import Any

import click

from interlock.cli.command import CommandAfterDashes, exit_with
from interlock.cli.lease_options import acquire_timeout, open_root, ttl_option, waiting_options
from interlock.cli.settings import database_options


@click.command(cls=CommandAfterDashes)
@click.argument("key")
@ttl_option()
@waiting_options
@database_options
def once(key: str, ttl: float, timeout: float | None, no_wait: bool, command: tuple[str, ...], **flags: Any) -> None:
    """Run COMMAND, unless it has already succeeded under KEY, on this or another machine.

    For example: interlock once bootstrap-v2 -- ./bootstrap.sh

    A second caller waits while COMMAND runs, and runs COMMAND again if the first run failed or died. The success of
    COMMAND (exit status 0) is recorded for ever. If this process is killed after COMMAND has ended and before its
    success is recorded, COMMAND runs again.

    Exits with 0 if COMMAND has succeeded, now or before; otherwise with COMMAND's own status; 75 if another process
    still runs COMMAND after --timeout; 74 if the lease was lost.
    """
    from interlock.coordination.lease.command import run_command_once

    limit = acquire_timeout(timeout, no_wait)
    locks, _ = open_root(flags)
    exit_with(
        run_command_once(locks, locks.once_settings(key, ttl, None), command, timeout=limit, environment=os.environ)
    )
