"""Leases in PostgreSQL."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from interlock.config import own_schema
from interlock.coordination.backends.choice import Guarding, StoreOptions
from interlock.stores.leases import Holder
from interlock.stores.postgres import Session, connect
from interlock.stores.postgres.direct_connection import require_primary
from interlock.stores.postgres.leases import PostgresLeases
from interlock.stores.postgres.url import checked

if TYPE_CHECKING:
    from interlock.coordination.operators import LeaseOperator


class PostgresDatabase:
    """A `LeaseDatabase` with sessions."""

    def __init__(self, url: str, options: StoreOptions) -> None:
        self.url = url
        self.options = options

    @property
    def schema(self) -> str:
        return self.options.schema or own_schema()

    @property
    def guarding(self) -> Guarding:
        from interlock.coordination.guards import postgres

        return postgres

    def open(self, holder: Holder, on_reconnected: Callable[[str], object]) -> "CheckedLeases":
        return CheckedLeases(
            self.url,
            schema=self.schema,
            holder=holder,
            password=self.options.password,
            pooler=self.options.pooler,
            timeout=self.options.timeout,
            on_reconnected=on_reconnected,
        )

    @asynccontextmanager
    async def operator(self) -> "AsyncIterator[LeaseOperator]":
        from interlock.coordination.operators.postgres import PostgresOperator
        from interlock.schema import read_status

        session = await connect(self.url, application_name="interlock command", password=self.options.password)
        async with session:
            (await read_status(session, self.schema)).require()
            yield PostgresOperator(session, self.schema)

    async def session(self, application_name: str) -> Session:
        return await connect(
            self.url,
            application_name=application_name,
            timeout=self.options.timeout,
            statement_timeout=self.options.timeout,
            password=self.options.password,
        )


class CheckedLeases(PostgresLeases):
    """Leases in a schema; `verify` checks the version of that schema."""

    async def verify(self) -> None:
        from interlock.schema import read_status

        session = await self.session()
        await require_primary(session)
        (await read_status(session, self.schema)).require()


def from_url(url: str, options: StoreOptions) -> PostgresDatabase:
    return PostgresDatabase(checked(url), options)
