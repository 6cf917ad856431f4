"""``interlock semaphore run``: at most N of a command at a time."""

import os
from typing import Any

import click

from interlock.cli.command import CommandAfterDashes, exit_with, started_supervisor
from interlock.cli.lease_options import (
    acquire_timeout,
    metadata_option,
    open_root,
    parse_metadata,
    ttl_option,
    waiting_options,
)
from interlock.cli.settings import database_options


@click.group()
def semaphore() -> None:
    """Limit how many of a command run at a time, on all machines together."""


@semaphore.command("run", cls=CommandAfterDashes)
@click.argument("name")
@click.option("--slots", type=int, required=True, metavar="N", help="The largest number of holders at a time.")
@ttl_option()
@waiting_options
@metadata_option
@database_options
def run_(
    name: str,
    slots: int,
    ttl: float,
    timeout: float | None,
    no_wait: bool,
    metadata: tuple[str, ...],
    command: tuple[str, ...],
    **flags: Any,
) -> None:
    """Run COMMAND while holding one of the slots of the lease NAME, so that no more than N of them run at a time.

    For example: interlock semaphore run openai --slots 20 -- ./ask.sh

    Exits with COMMAND's own status; 75 if no slot was acquired; 74 if it was lost.
    """
    limit = acquire_timeout(timeout, no_wait)
    with started_supervisor() as supervisor:
        from interlock.coordination.lease.command import run_command

        locks, _ = open_root(flags)
        lease = locks.lease(name, ttl=ttl, metadata=parse_metadata(metadata), slots=slots)
        exit_with(run_command(locks, lease, command, timeout=limit, environment=os.environ, supervisor=supervisor))
