"""``interlock every``: a command that all machines together run now and then."""

import os
from typing import Any

import click

from interlock.cli.command import CommandAfterDashes, exit_with
from interlock.cli.settings import database_options
from interlock.cli.under_lease import opened, ttl_option


@click.command(cls=CommandAfterDashes)
@click.argument("when")
@click.argument("name")
@click.option(
    "--missed",
    default="once",
    show_default=True,
    metavar="POLICY",
    help="What becomes of ticks that nobody ran: skip, once, or how many of them are run.",
)
@click.option("--timezone", metavar="ZONE", help="Whose clocks a cron expression goes by. [default: UTC]")
@ttl_option()
@database_options
def every(
    when: str, name: str, missed: str, timezone: str | None, ttl: float, command: tuple[str, ...], **flags: Any
) -> None:
    """Run COMMAND every WHEN: an interval (90s, 5m, 1h) or a cron expression in quotes.

    For example, on every machine: interlock every 5m sweep -- ./sweep.sh

    At each tick one of them runs it, by the database's clock; if that one dies, another runs it again. Goes on until a
    signal comes. A COMMAND that fails is logged, and the next tick is another chance.
    """
    from interlock.coordination.lease.command import run_command_every

    locks, _ = opened(flags)
    make = locks.periodic(when, int(missed) if missed.isdecimal() else missed, timezone, ttl)  # type: ignore[arg-type] # checked there
    exit_with(run_command_every(locks, make, name, command, environment=os.environ))
