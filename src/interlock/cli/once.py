"""``interlock once``: a command that has to succeed once, on any machine."""

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
    """Run COMMAND, unless it has succeeded before under KEY, here or elsewhere.

    For example: interlock once bootstrap-v2 -- ./bootstrap.sh

    A second caller waits while COMMAND runs, and runs it if it failed or died. Its success (exit status 0) is recorded
    without limit of time. If this process is killed after COMMAND has ended and before the record, it is run again.

    Exits with 0 if COMMAND has succeeded, now or before; else with COMMAND's own status; 75 if another process still
    runs it after --timeout; 74 if the lease was lost.
    """
    from interlock.coordination.lease.command import run_command_once

    limit = acquire_timeout(timeout, no_wait)
    locks, _ = open_root(flags)
    exit_with(
        run_command_once(locks, locks.once_settings(key, ttl, None), command, timeout=limit, environment=os.environ)
    )
