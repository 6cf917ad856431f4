"""The interface of an adapter, and the forms in which drivers take parameters."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

from interlock.errors import ConnectionUnfit

Rows = list[tuple[Any, ...]]
Parameters = Sequence[Any]

_PLACE = re.compile(r"\$(\d+)")


class SyncAdapter(Protocol):
    """Statements have PostgreSQL's own placeholders, ``$1``, and return rows."""

    def unfit_reason(self) -> str | None:
        """Returns the reason why the connection cannot run a statement in a transaction now, with a remedy.

        Returns None if the connection can.
        """

    def fetch(self, statement: str, parameters: Parameters) -> Rows: ...


class AsyncAdapter(Protocol):
    async def unfit_reason(self) -> str | None: ...

    async def fetch(self, statement: str, parameters: Parameters) -> Rows: ...


def unfit(reason: str) -> ConnectionUnfit:
    return ConnectionUnfit(f"This connection cannot be used here. {reason}.", why=reason)


def outside(what_to_do: str) -> str:
    """Returns the reason for a connection in autocommit mode and outside of a transaction."""
    return f"The connection is in autocommit mode and in no transaction: {what_to_do}"


@lru_cache(maxsize=512)
def by_name(statement: str) -> str:
    """Returns the statement for drivers that use the placeholders ``%(p1)s``."""
    return _PLACE.sub(r"%(p\1)s", statement.replace("%", "%%"))


def named(parameters: Parameters) -> dict[str, Any]:
    return {f"p{number}": value for number, value in enumerate(parameters, 1)}


@lru_cache(maxsize=512)
def by_place(statement: str) -> str:
    """Returns the statement for drivers that use the placeholder ``%s``."""
    return _PLACE.sub("%s", statement.replace("%", "%%"))


def placed(statement: str, parameters: Parameters) -> list[Any]:
    """Returns one parameter for each ``%s``: a parameter that the statement uses twice is in the list twice."""
    return [parameters[place] for place in _places(statement)]


@lru_cache(maxsize=512)
def _places(statement: str) -> tuple[int, ...]:
    return tuple(int(number) - 1 for number in _PLACE.findall(statement))
