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
    if not _is_somebody_there():
        raise click.UsageError(f"Nobody is there to ask: say --yes to {to} without being asked.")
    click.confirm(question, abort=True, err=True)


def _is_somebody_there() -> bool:
    stdin: TextIO | None = sys.stdin  # None where it is closed
    return stdin is not None and stdin.isatty()
