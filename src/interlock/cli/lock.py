"""``interlock lock run``: runs any command under a lease."""

import os
from typing import Any

import click

from interlock.cli.command import CommandAfterDashes, exit_with, started_supervisor
from interlock.cli.lease_options import (
    acquire_timeout,
    at_least_option,
    metadata_option,
    minimum_hold,
    open_root,
    parse_metadata,
    refuse_nesting,
    ttl_option,
    waiting_options,
)
from interlock.cli.settings import database_options


@click.group()
def lock() -> None:
    """Run commands under a lease: on all machines together, one at a time."""


@lock.command("run", cls=CommandAfterDashes)
@click.argument("name")
@ttl_option()
@waiting_options
@at_least_option
@metadata_option
@database_options
def run_(
    name: str,
    ttl: float,
    timeout: float | None,
    no_wait: bool,
    at_least: float,
    metadata: tuple[str, ...],
    command: tuple[str, ...],
    **flags: Any,
) -> None:
    """Run COMMAND while this process holds the lease NAME, so that COMMAND never runs twice at the same time.

    For example: interlock lock run nightly-report --no-wait -- ./report.sh

    COMMAND finds its fencing token in INTERLOCK_LEASE_TOKEN. If the lease is lost, COMMAND is stopped, with everything
    that it has started.

    With --at-least the lease stays held for that time, even if COMMAND ends sooner, fails or is killed. For example, in
    every machine's crontab: interlock lock run nightly-report --no-wait --at-least 10m -- ./report.sh

    Exits with COMMAND's own status; 75 if the lease was not acquired; 74 if the lease was lost.
    """
    limit = acquire_timeout(timeout, no_wait)
    with started_supervisor() as supervisor:
        from interlock.coordination.lease.command import run_command

        locks, url = open_root(flags)
        lease = locks.lease(name, **minimum_hold(url, ttl, at_least, parse_metadata(metadata)))
        if limit != 0:
            refuse_nesting(locks, url, name)
        exit_with(
            run_command(
                locks, lease, command, timeout=limit, environment=os.environ, supervisor=supervisor, at_least=at_least
            )
        )
