"""The user's command, for the commands that run one: how it is given, and how its end becomes ours."""

import os
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, NoReturn

import click

from interlock.cli.settings import run

if TYPE_CHECKING:
    from interlock.commands import SupervisorProcess


class CommandAfterDashes(click.Command):
    """The words after the first ``--`` are the user's command, the words before it are ours.

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
        ours = [(one.name or "").upper() for one in self.params if isinstance(one, click.Argument)]
        call = " ".join([context.command_path, *ours, "-- COMMAND"])
        return click.UsageError(f"Say what to run after two dashes: {call}", context)


def started_supervisor() -> "SupervisorProcess":
    """A supervisor for the command, to be entered first: its process starts while ours still loads and connects."""
    from interlock.commands import SupervisorProcess

    return SupervisorProcess()


def exit_with(work: Coroutine[Any, Any, int]) -> NoReturn:
    status = run(work)
    os._exit(status)  # everything is closed and said; taking the interpreter apart would take a tenth of our time
