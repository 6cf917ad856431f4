"""The adapter of a connection, and the ways in which drivers write parameters."""

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
        """The reason why this connection cannot take a part of a transaction now, and what to do. None: it can."""

    def fetch(self, statement: str, parameters: Parameters) -> Rows: ...


class AsyncAdapter(Protocol):
    async def unfit_reason(self) -> str | None: ...

    async def fetch(self, statement: str, parameters: Parameters) -> Rows: ...


def unfit(reason: str) -> ConnectionUnfit:
    return ConnectionUnfit(f"This connection cannot be used here. {reason}.", why=reason)


def outside(what_to_do: str) -> str:
    """The reason for a connection in autocommit mode: between two transactions nothing would hold the statement."""
    return f"The connection is in autocommit mode and in no transaction: {what_to_do}"


@lru_cache(maxsize=512)
def by_name(statement: str) -> str:
    """The statement for drivers with ``%(p1)s``."""
    return _PLACE.sub(r"%(p\1)s", statement.replace("%", "%%"))


def named(parameters: Parameters) -> dict[str, Any]:
    return {f"p{number}": value for number, value in enumerate(parameters, 1)}


@lru_cache(maxsize=512)
def by_place(statement: str) -> str:
    """The statement for drivers with ``%s``."""
    return _PLACE.sub("%s", statement.replace("%", "%%"))


def placed(statement: str, parameters: Parameters) -> list[Any]:
    """One parameter for each ``%s``: a parameter that is used twice is given twice."""
    return [parameters[place] for place in _places(statement)]


@lru_cache(maxsize=512)
def _places(statement: str) -> tuple[int, ...]:
    return tuple(int(number) - 1 for number in _PLACE.findall(statement))
