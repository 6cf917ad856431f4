"""The options for what a new instance is to have, wherever one is made."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from interlock.cli.record.pairs import pair

F = TypeVar("F", bound=Callable[..., Any])


def wish_options(command: F) -> F:
    command = click.option(
        "--tag",
        "tags",
        type=pair,
        multiple=True,
        metavar="NAME=VALUE",
        help="A word of yours to find it by; repeatable.",
    )(command)
    command = click.option(
        "--parameter",
        "parameters",
        type=pair,
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of PostgreSQL's; repeatable.",
    )(command)
    return click.option("--storage", metavar="SIZE", help="Such as 10Gi or 500MB.")(command)
