"""Connections of Django."""

import sys
from typing import Any

from interlock.user_connections.adapter import Parameters, Rows, by_place, outside, placed


class DjangoConnection:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def unfit_reason(self) -> str | None:
        if reason := self._other_database():
            return reason
        if not self._connection.in_atomic_block and self._connection.get_autocommit():
            return outside("do it inside `with transaction.atomic():`")
        return None

    def fetch(self, statement: str, parameters: Parameters) -> Rows:
        with self._connection.cursor() as cursor:
            cursor.execute(by_place(statement), placed(statement, parameters))
            return list(cursor.fetchall())

    def _other_database(self) -> str | None:
        if self._connection.vendor == "postgresql":
            return None
        return (
            f"The database {self._connection.alias!r} is {self._connection.vendor}, "
            "and Interlock's tables are in PostgreSQL"
        )


class NoDjango:
    """The adapter for an alias or None in a process that has not imported Django's databases."""

    def unfit_reason(self) -> str:
        return "Only Django has aliases and a default connection, and Django is not in use: pass a connection"

    def fetch(self, statement: str, parameters: Parameters) -> Rows:
        raise LookupError(self.unfit_reason())


def by_alias(alias: str | None) -> DjangoConnection | NoDjango:
    """Returns the adapter for the database with this alias, or for Django's default database if `alias` is None."""
    django = sys.modules.get("django.db")
    return NoDjango() if django is None else DjangoConnection(django.connections[alias or django.DEFAULT_DB_ALIAS])
