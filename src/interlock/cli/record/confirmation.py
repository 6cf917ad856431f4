"""Asking before something is lost."""

import sys
from collections.abc import Callable
from typing import Any, TextIO, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def yes_option(command: F) -> F:
    return click.option("--yes", is_flag=True, help="Do not ask. Scripts have to say this.")(command)


def confirm(question: str, to: str) -> None:
    """`to`: what it is that nobody else is there to be asked about."""
    require_terminal(to)
    click.confirm(question, abort=True, err=True)


def require_terminal(to: str) -> None:
    """Raise a usage error where a question would have no answer."""
    if not _is_somebody_there():
        raise click.UsageError(f"Without a terminal nothing can be asked: use --yes to {to}.")


def _is_somebody_there() -> bool:
    stdin: TextIO | None = sys.stdin  # None where it is closed
    return stdin is not None and stdin.isatty()
