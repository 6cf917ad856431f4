"""``interlock elect``: a command that runs only while its process is the leader."""

import os
from typing import Any

import click

from interlock.cli.command import CommandAfterDashes, exit_with
from interlock.cli.lease_options import metadata_option, open_root, parse_metadata, refuse_nesting, ttl_option
from interlock.cli.settings import database_options


@click.command(cls=CommandAfterDashes)
@click.argument("name")
@ttl_option(10.0)
@metadata_option
@database_options
def elect(name: str, ttl: float, metadata: tuple[str, ...], command: tuple[str, ...], **flags: Any) -> None:
    """Run COMMAND while this process is the leader of NAME, and only then.

    For example: interlock elect scheduler -- ./scheduler

    When the term is over, COMMAND is stopped with all its descendants, and runs again in this process's next term.
    If this machine dies, there is no leader for the time of --ttl.

    When COMMAND ends by itself, the next waiter becomes the leader, and this process exits with COMMAND's status.
    """
    from interlock.coordination.lease.command import lead_command

    locks, url = open_root(flags)
    lease = locks.lease(name, ttl=ttl, metadata=parse_metadata(metadata))
    refuse_nesting(locks, url, name)
    exit_with(lead_command(locks, lease, command, environment=os.environ))
