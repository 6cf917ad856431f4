"""What the commands share that run another command under a lease."""

import os
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from interlock.cli.settings import database, loaded, run

if TYPE_CHECKING:
    from interlock.commands import Standby
    from interlock.coordination.root import AsyncInterlock

F = TypeVar("F", bound=Callable[..., Any])


class CommandAfterDashes(click.Command):
    """What stands after the first ``--`` is the user's command, what stands before is ours.

    So no option of that command is ever taken for one of ours, and no misspelt one of ours for the command.
    """

    def collect_usage_pieces(self, context: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(context), "-- COMMAND..."]

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        place = args.index("--") if "--" in args else len(args)
        try:
            rest = super().parse_args(context, args[:place])
        except click.UsageError as error:
            if "--" not in args and type(error) is click.UsageError:  # of the arguments, not of an option
                raise self._no_dashes(context) from None
            raise
        context.params["command"] = tuple(args[place + 1 :])
        if not context.params["command"] and not context.resilient_parsing:
            raise self._no_dashes(context)
        return rest

    def _no_dashes(self, context: click.Context) -> click.UsageError:
        ours = " ".join((one.name or "").upper() for one in self.params if isinstance(one, click.Argument))
        return click.UsageError(f"Say what to run after two dashes: {context.command_path} {ours} -- COMMAND", context)


def ttl_option(default: float = 30.0) -> Callable[[F], F]:
    return click.option(
        "--ttl", type=float, default=default, show_default=True, metavar="S", help="How long it outlives us if we die."
    )


def waiting_options(command: F) -> F:
    """They come as `wait` and `no_wait`; see `patience`."""
    command = click.option("--no-wait", is_flag=True, help="Exit at once if the lease is not free.")(command)
    return click.option(
        "--wait", type=float, metavar="S", help="Wait for the lease at most this long. [default: without end]"
    )(command)


def metadata_option(command: F) -> F:
    return click.option(
        "--metadata", multiple=True, metavar="KEY=VALUE", help="Shown to whoever asks who holds it. Repeatable."
    )(command)


def patience(wait: float | None, no_wait: bool) -> float | None:
    """How long to wait; None: without end."""
    if no_wait and wait is not None:
        raise click.UsageError("Say --wait or --no-wait, not both.")
    from interlock.coordination.timing import checked_timeout

    return 0.0 if no_wait else checked_timeout(wait)


def pairs(metadata: tuple[str, ...]) -> Mapping[str, str] | None:
    return dict(map(_pair, metadata)) or None


def standing_by() -> "Standby":
    """A supervisor for the command, to be entered first: its process starts while ours still loads and connects."""
    from interlock.commands import Standby

    return Standby()


def opened(flags: dict[str, Any]) -> "tuple[AsyncInterlock, str]":
    """A root object on the database to work on, and that database. Whoever works with it closes it."""
    from interlock.coordination.root import AsyncInterlock

    settings = loaded(**flags)
    url = database(settings)
    return AsyncInterlock(url, schema=settings.schema), url


def refuse_nesting(locks: "AsyncInterlock", url: str, name: str) -> None:
    """Where we run under that very lease already, we would wait for ourselves."""
    from interlock.coordination.running import NAME

    if os.environ.get(NAME) == name:
        from interlock.coordination.nesting import require_not_within

        run(require_not_within(url, locks.schema, name, os.environ))


def exit_with(work: Coroutine[Any, Any, int]) -> NoReturn:
    status = run(work)
    os._exit(status)  # everything is closed and said; taking the interpreter apart would take a tenth of our time


def _pair(given: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{given!r} is not KEY=VALUE.", param_hint="--metadata")
    return key, value
