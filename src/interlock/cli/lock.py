"""``interlock lock run``: any command under a lease."""

import os
from typing import Any

import click

from interlock.cli.settings import database, database_options, loaded, run


class _CommandAfterDashes(click.Command):
    """What stands after the first ``--`` is the user's command, what stands before is ours.

    So no option of that command is ever taken for one of ours, and no misspelt one of ours for the command.
    """

    def collect_usage_pieces(self, context: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(context), "-- COMMAND..."]

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        place = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(context, args[:place])
        context.params["command"] = tuple(args[place + 1 :])
        if not context.params["command"] and not context.resilient_parsing:
            raise click.UsageError(f"Say what to run after two dashes: {context.command_path} NAME -- COMMAND", context)
        return rest


@click.group()
def lock() -> None:
    """Commands under a lease: one of them at a time, on all machines."""


@lock.command("run", cls=_CommandAfterDashes)
@click.argument("name")
@click.option(
    "--ttl", type=float, default=30.0, show_default=True, metavar="S", help="How long it outlives us if we die."
)
@click.option("--wait", type=float, metavar="S", help="Wait for the lease at most this long. [default: without end]")
@click.option("--no-wait", is_flag=True, help="Exit at once if the lease is not free.")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE", help="Shown to whoever asks who holds it. Repeatable.")
@database_options
def run_(
    name: str,
    ttl: float,
    wait: float | None,
    no_wait: bool,
    metadata: tuple[str, ...],
    command: tuple[str, ...],
    **flags: Any,
) -> None:
    """Run COMMAND while holding the lease NAME, so that it never runs twice at the same time.

    For example: interlock lock run nightly-report --no-wait -- ./report.sh

    COMMAND finds its fencing token in INTERLOCK_LEASE_TOKEN. If the lease is lost, COMMAND is stopped, with everything
    that it has started. --ttl is how long others wait when this machine dies, in seconds.

    Exits with COMMAND's own status; 75 if the lease was not acquired; 74 if it was lost.
    """
    if no_wait and wait is not None:
        raise click.UsageError("Say --wait or --no-wait, not both.")
    from interlock.coordination.root import AsyncInterlock
    from interlock.coordination.running import NAME, run_command
    from interlock.coordination.timing import checked_timeout

    settings = loaded(**flags)
    timeout = 0.0 if no_wait else checked_timeout(wait)
    url = database(settings)
    locks = AsyncInterlock(url, schema=settings.schema)
    lease = locks.lease(name, ttl=ttl, metadata=dict(map(_pair, metadata)) or None)
    if os.environ.get(NAME) == name and timeout != 0:
        from interlock.coordination.nesting import require_not_within

        run(require_not_within(url, settings.schema, name, os.environ))
    status = run(run_command(locks, lease, command, timeout=timeout, environment=os.environ))
    os._exit(status)  # everything is closed and said; taking the interpreter apart would take a tenth of our time


def _pair(given: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{given!r} is not KEY=VALUE.", param_hint="--metadata")
    return key, value
