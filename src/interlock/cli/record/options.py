"""Options and arguments of commands that change records: ``--yes`` with its question, and ``name=value``."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, TextIO, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def yes_option(command: F) -> F:
    return click.option("--yes", is_flag=True, help="Do not ask. Needed in scripts.")(command)


def confirm(question: str, action: str) -> None:
    """Ask before something is lost. `action` is a verb for the error without a terminal: ``delete``."""
    require_terminal(action)
    click.confirm(question, abort=True, err=True)


def require_terminal(action: str) -> None:
    """Raise a usage error where a question would have no answer."""
    if not _has_terminal():
        raise click.UsageError(f"Without a terminal nothing can be asked: use --yes to {action}.")


def pair(given: str) -> tuple[str, str]:
    """The click type of ``name=value``."""
    name, equals, value = given.partition("=")
    if not name.strip() or not equals:
        raise click.BadParameter(f"{given!r} is not NAME=VALUE.")
    return name.strip(), value


def as_mapping(pairs: Sequence[tuple[str, str]], kind: str) -> dict[str, str]:
    """Raises a usage error for a name that is given twice, because either value could be meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise click.UsageError(f"One {kind} is given twice: leave one out.")
    return found


def _has_terminal() -> bool:
    stdin: TextIO | None = sys.stdin  # None where it is closed
    return stdin is not None and stdin.isatty()
