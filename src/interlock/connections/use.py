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

    def session(self) -> "SyncSession":
        """For what is to outlast a transaction. Raises `ConnectionUnfit` where each may have another connection."""


class AsyncUse(Protocol):
    async def unfit(self) -> str | None: ...

    async def fetch(self, statement: str, parameters: Parameters) -> Rows: ...

    def session(self) -> "AsyncSession": ...


class Loan(Protocol):
    """Of a connection by the pool that it is from, if it is from one."""

    @property
    def is_over(self) -> bool:
        """Whether it was given back since it was reserved."""

    def reserve(self) -> None:
        """From now on the pool lends it to nobody else."""

    def free(self) -> None:
        """As far as we are concerned."""

    def forfeit(self) -> None:
        """It is over, and the session goes to nobody: end it, unless the pool does, and may be at it."""


class SyncSession(Protocol):
    """A connection, from one transaction to the next."""

    def is_engaged(self) -> bool:
        """Whether a transaction is open, sound or failed."""

    def settle(self, statement: str, parameters: Parameters) -> Rows:
        """Between two transactions, in one of its own, which is committed."""

    def roll_back(self) -> None: ...

    def driver(self) -> Any:
        """The driver's own connection, at the bottom of it; None where it has none at the moment."""

    def loan(self) -> Loan:
        """That of the driver's connection that it has now."""


class AsyncSession(Protocol):
    async def is_engaged(self) -> bool: ...

    async def settle(self, statement: str, parameters: Parameters) -> Rows: ...

    async def roll_back(self) -> None: ...

    async def driver(self) -> Any: ...

    def loan(self) -> Loan: ...


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
