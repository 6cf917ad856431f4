"""The user's command after ``--``, in commands that run one: Interlock finds it, runs it and exits with its status."""

import os
import shlex
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

from interlock.cli.settings import run

if TYPE_CHECKING:
    from interlock.supervision import SupervisorProcess


class CommandAfterDashes(click.Command):
    """The words after the first ``--`` are the user's command, the words before ``--`` are Interlock's options.

    So Interlock never reads an option of the user's command, and never takes its own misspelt option for the command.
    """

    def collect_usage_pieces(self, context: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(context), "-- COMMAND..."]

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        place = args.index("--") if "--" in args else len(args)
        try:
            rest = super().parse_args(context, args[:place])
        except click.UsageError as error:
            if "--" in args or (not isinstance(error, click.NoSuchOption) and type(error) is not click.UsageError):
                raise
            raise self._no_dashes(context, args) from None
        context.params["command"] = tuple(args[place + 1 :])
        if not context.params["command"] and not context.resilient_parsing:
            raise self._no_dashes(context, args)
        return rest

    def _no_dashes(self, context: click.Context, args: Sequence[str]) -> click.UsageError:
        names = [(one.name or "").upper() for one in self.params if isinstance(one, click.Argument)]
        command = "COMMAND"
        first, rest = args[: len(names)], args[len(names) :]
        is_clear = rest and "--" not in args and not any(word.startswith("-") for word in (*first, rest[0]))
        if is_clear:  # where Interlock's arguments end
            names, command = [shlex.quote(word) for word in first], shlex.join(rest)
        call = " ".join([context.command_path, *names, "--", command])
        missing = "the command is missing" if "--" in args else "the dashes are missing"
        return click.UsageError(f"The command stands after two dashes, and {missing}: {call}", context)


def started_supervisor() -> "SupervisorProcess":
    """Start a supervisor for the command. Call this first: it starts while this process still loads and connects."""
    from interlock.supervision import SupervisorProcess

    return SupervisorProcess()


def exit_with(work: Coroutine[Any, Any, int]) -> NoReturn:
    status = run(work)
    os._exit(status)  # all is closed and printed; the interpreter's own clean-up would take a tenth of the time
