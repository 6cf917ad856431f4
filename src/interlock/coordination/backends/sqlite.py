"""Leases in a SQLite file."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.config import own_schema
from interlock.coordination.backends.choice import Guarding, StoreOptions
from interlock.errors import ConfigurationError
from interlock.stores.leases import Holder
from interlock.stores.sqlite.leases import SqliteLeases
from interlock.stores.sqlite.url import file_of

if TYPE_CHECKING:
    from interlock.coordination.operators import LeaseOperator


@dataclass(frozen=True)
class SqliteDatabase:
    """A `LeaseDatabase` without sessions."""

    file: Path
    timeout: float

    @property
    def schema(self) -> str:
        return ""

    @property
    def guarding(self) -> Guarding:
        from interlock.coordination.guards.sqlite import SqliteGuards

        return SqliteGuards(self.file)

    def open(self, holder: Holder, on_reconnected: Callable[[str], object]) -> SqliteLeases:
        return SqliteLeases(self.file, holder, self.timeout)

    @asynccontextmanager
    async def operator(self) -> "AsyncIterator[LeaseOperator]":
        from interlock.coordination.operators.sqlite import SqliteOperator
        from interlock.stores.sqlite.operator import SqliteOperations

        store = SqliteOperations(self.file, Holder("interlock command", "", 0), self.timeout)
        try:
            yield SqliteOperator(store)
        finally:
            await store.close()


def from_url(url: str, options: StoreOptions) -> SqliteDatabase:
    for option, is_given in {
        "password": options.password is not None,
        "schema": options.schema not in (None, own_schema()),
        "pooler": options.pooler != "detect",
    }.items():
        if is_given:
            raise ConfigurationError(
                f"{option}= is only for PostgreSQL and has no meaning for a SQLite file: leave {option}= out."
            )
    return SqliteDatabase(file_of(url), options.timeout)
