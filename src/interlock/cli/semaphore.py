"""``interlock semaphore run``: runs a command at most N times at the same time."""

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
    """Limit the number of commands that run at the same time, on all machines together."""


@semaphore.command("run", cls=CommandAfterDashes)
@click.argument("name")
@click.option("--slots", type=int, required=True, metavar="N", help="The largest number of holders at the same time.")
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
    """Run COMMAND while this process holds a slot of the lease NAME, so that at most N commands run at the same time.

    For example: interlock semaphore run openai --slots 20 -- ./ask.sh

    Exits with COMMAND's own status; 75 if no slot was acquired; 74 if the slot was lost.
    """
    limit = acquire_timeout(timeout, no_wait)
    with started_supervisor() as supervisor:
        from interlock.coordination.lease.command import run_command

        locks, _ = open_root(flags)
        lease = locks.lease(name, ttl=ttl, metadata=parse_metadata(metadata), slots=slots)
        exit_with(run_command(locks, lease, command, timeout=limit, environment=os.environ, supervisor=supervisor))
