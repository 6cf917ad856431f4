"""Django's connections."""

import sys
from typing import Any, NoReturn, Self

from interlock.connections.drivers import is_engaged
from interlock.connections.lending import PsycopgLoan
from interlock.connections.use import Parameters, Rows, by_place, outside, placed, unfit


class DjangoConnection:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def unfit(self) -> str | None:
        if why := self._foreign():
            return why
        if not self._connection.in_atomic_block and self._connection.get_autocommit():
            return outside("do it inside `with transaction.atomic():`")
        return None

    def fetch(self, statement: str, parameters: Parameters) -> Rows:
        with self._connection.cursor() as cursor:
            cursor.execute(by_place(statement), placed(statement, parameters))
            return list(cursor.fetchall())

    def session(self) -> Self:
        if why := self._foreign():
            raise unfit(why)
        return self

    def is_engaged(self) -> bool:
        self._connection.ensure_connection()
        return self._connection.in_atomic_block or is_engaged(self.driver())

    def settle(self, statement: str, parameters: Parameters) -> Rows:
        try:
            rows = self.fetch(statement, parameters)
        except BaseException:
            if not self._connection.get_autocommit():
                self._connection.rollback()
            raise
        if not self._connection.get_autocommit():
            self._connection.commit()
        return rows

    def roll_back(self) -> None:
        self._connection.rollback()

    def driver(self) -> Any:
        return self._connection.connection

    def loan(self) -> PsycopgLoan:
        return PsycopgLoan(self._connection.connection)

    def _foreign(self) -> str | None:
        if self._connection.vendor == "postgresql":
            return None
        return (
            f"The database {self._connection.alias!r} is {self._connection.vendor}, "
            "and Interlock's tables are in PostgreSQL"
        )


class NoDjango:
    """An alias that nobody can look up."""

    def unfit(self) -> str:
        return "Only Django's connections have aliases, and Django is not in use: pass the connection"

    def fetch(self, statement: str, parameters: Parameters) -> Rows:
        raise LookupError(self.unfit())

    def session(self) -> NoReturn:
        raise unfit(self.unfit())


def by_alias(alias: str | None) -> DjangoConnection | NoDjango:
    """Without an alias, the default database."""
    django = sys.modules.get("django.db")
    return NoDjango() if django is None else DjangoConnection(django.connections[alias or django.DEFAULT_DB_ALIAS])
