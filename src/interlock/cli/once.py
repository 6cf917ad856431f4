"""``interlock once``: a command that has to succeed once, on whichever machine."""

import os
from typing import Any

import click

from interlock.cli.command import CommandAfterDashes, exit_with
from interlock.cli.settings import database_options
from interlock.cli.under_lease import acquire_timeout, opened, ttl_option, waiting_options


@click.command(cls=CommandAfterDashes)
@click.argument("key")
@ttl_option()
@waiting_options
@database_options
def once(key: str, ttl: float, timeout: float | None, no_wait: bool, command: tuple[str, ...], **flags: Any) -> None:
    """Run COMMAND, unless it has succeeded before under KEY, here or elsewhere.

    For example: interlock once bootstrap-v2 -- ./bootstrap.sh

    Whoever comes while it runs waits for its end, and runs it if it failed or died. That COMMAND exited with 0 is
    recorded for ever. If we are killed after it has ended and before that is recorded, it is run again.

    Exits with 0 if it has succeeded, now or before; else with COMMAND's own status; 75 if somebody else is still at it
    after --timeout; 74 if the lease was lost.
    """
    from interlock.coordination.lease.command import run_command_once

    limit = acquire_timeout(timeout, no_wait)
    locks, _ = opened(flags)
    exit_with(
        run_command_once(locks, locks.once_settings(key, ttl, None), command, timeout=limit, environment=os.environ)
    )
