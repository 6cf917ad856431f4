"""What every kind of connection can be asked for, and how it differs in the way parameters are written."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Protocol

from interlock.errors import ConnectionUnfit

Rows = list[tuple[Any, ...]]
Parameters = Sequence[Any]

_PLACE = re.compile(r"\$(\d+)")


class SyncUse(Protocol):
    """Statements have PostgreSQL's own placeholders, ``$1``, and return rows."""

    def unfit(self) -> str | None:
        """Why no part of a transaction can be put into it as it stands, and what to do."""

    def fetch(self, statement: str, parameters: Parameters) -> Rows: ...


class AsyncUse(Protocol):
    async def unfit(self) -> str | None: ...

    async def fetch(self, statement: str, parameters: Parameters) -> Rows: ...


def unfit(why: str) -> ConnectionUnfit:
    return ConnectionUnfit(f"This connection cannot be used here. {why}.", why=why)


def outside(what_to_do: str) -> str:
    """Between two transactions nothing holds what was asked for."""
    return f"The connection is in autocommit mode and in no transaction: {what_to_do}"


@lru_cache(maxsize=512)
def by_name(statement: str) -> str:
    """As drivers with ``%(p1)s`` have it."""
    return _PLACE.sub(r"%(p\1)s", statement.replace("%", "%%"))


def named(parameters: Parameters) -> dict[str, Any]:
    return {f"p{number}": value for number, value in enumerate(parameters, 1)}


@lru_cache(maxsize=512)
def by_place(statement: str) -> str:
    """As drivers with ``%s`` have it."""
    return _PLACE.sub("%s", statement.replace("%", "%%"))


def placed(statement: str, parameters: Parameters) -> list[Any]:
    """One for each ``%s``: a parameter that is used twice is given twice."""
    return [parameters[place] for place in _places(statement)]


@lru_cache(maxsize=512)
def _places(statement: str) -> tuple[int, ...]:
    return tuple(int(number) - 1 for number in _PLACE.findall(statement))
