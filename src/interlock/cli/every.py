"""``interlock every``: a command that one of many machines runs at each tick."""

import os
from typing import Any

import click

from interlock.cli.command import CommandAfterDashes, exit_with
from interlock.cli.lease_options import open_root, ttl_option
from interlock.cli.settings import database_options


@click.command(cls=CommandAfterDashes)
@click.argument("when")
@click.argument("name")
@click.option(
    "--missed",
    default="once",
    show_default=True,
    metavar="POLICY",
    help="For missed ticks: skip, once (one run for all of them), or the number of them to run.",
)
@click.option("--timezone", metavar="ZONE", help="The time zone of a cron expression. [default: UTC]")
@ttl_option()
@database_options
def every(
    when: str, name: str, missed: str, timezone: str | None, ttl: float, command: tuple[str, ...], **flags: Any
) -> None:
    """Run COMMAND every WHEN: an interval (90s, 5m, 1h) or a cron expression in quotes.

    For example, on every machine: interlock every 5m sweep -- ./sweep.sh

    At each tick of the database's clock, one machine runs COMMAND; if that machine dies, another one runs it again. A
    failure of COMMAND is logged, and COMMAND runs again at the next tick. A signal ends this process.
    """
    from interlock.coordination.lease.command import run_command_every

    locks, _ = open_root(flags)
    make = locks.periodic(when, int(missed) if missed.isdecimal() else missed, timezone, ttl)  # type: ignore[arg-type] # checked there
    exit_with(run_command_every(locks, make, name, command, environment=os.environ))
