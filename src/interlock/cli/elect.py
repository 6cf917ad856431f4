"""``interlock elect``: a command that runs only where the leader is."""

import os
from typing import Any

import click

from interlock.cli.command import CommandAfterDashes, exit_with
from interlock.cli.settings import database_options
from interlock.cli.under_lease import metadata_option, opened, pairs, refuse_nesting, ttl_option


@click.command(cls=CommandAfterDashes)
@click.argument("name")
@ttl_option(10.0)
@metadata_option
@database_options
def elect(name: str, ttl: float, metadata: tuple[str, ...], command: tuple[str, ...], **flags: Any) -> None:
    """Run COMMAND while this process is the leader of NAME, and only then.

    For example: interlock elect scheduler -- ./scheduler

    When the term is over, COMMAND is stopped, with everything that it has started, and runs again in our next term.
    --ttl is how long nobody leads when this machine dies.

    Exits when COMMAND ends by itself, with its status, and gives the lead to whoever waits for it.
    """
    from interlock.coordination.lease.command import lead_command

    locks, url = opened(flags)
    lease = locks.lease(name, ttl=ttl, metadata=pairs(metadata))
    refuse_nesting(locks, url, name)
    exit_with(lead_command(locks, lease, command, environment=os.environ))
