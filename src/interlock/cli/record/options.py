"""Options and arguments of commands that change records: ``--yes`` with its question, and ``name=value``."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def yes_option(command: F) -> F:
    return click.option("--yes", is_flag=True, help="Do not ask for confirmation. Scripts need this.")(command)


def confirm(question: str, action: str) -> None:
    """Ask before something is lost. Without a terminal, raise a usage error: use --yes to `action`.

    `action` is a verb, for example ``delete``.
    """
    require_terminal(action)
    click.confirm(question, abort=True, err=True)


def require_terminal(action: str) -> None:
    """Raise a usage error if there is no terminal, because a question would get no answer."""
    if not _has_terminal():
        raise click.UsageError(f"This command has to ask, and it has no terminal: use --yes to {action}.")


def pair(given: str) -> tuple[str, str]:
    """Parse ``name=value``. This is a type for options and arguments of click."""
    name, equals, value = given.partition("=")
    if not name.strip() or not equals:
        raise click.BadParameter(f"{given!r} has no name or no =: write NAME=VALUE.")
    return name.strip(), value


def as_mapping(pairs: Sequence[tuple[str, str]], kind: str) -> dict[str, str]:
    """Returns values by name. Raises a usage error for a name that is given twice: either value could be meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise click.UsageError(f"One {kind} is given twice: use each name once.")
    return found


def _has_terminal() -> bool:
    stdin: TextIO | None = sys.stdin  # None where it is closed
    return stdin is not None and stdin.isatty()
