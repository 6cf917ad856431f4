"""``name=value`` on the command line."""

from collections.abc import Sequence

import click


def pair(given: str) -> tuple[str, str]:
    """A type for options and arguments."""
    name, equals, value = given.partition("=")
    if not name.strip() or not equals:
        raise click.BadParameter(f"{given!r} is not NAME=VALUE.")
    return name.strip(), value


def as_mapping(pairs: Sequence[tuple[str, str]], what: str) -> dict[str, str]:
    """Raises a usage error for what is given twice: nobody knows which was meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise click.UsageError(f"One {what} is given twice: leave one out.")
    return found
