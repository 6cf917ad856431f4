"""Leases in a DynamoDB table."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from interlock.config import own_schema
from interlock.coordination.backends.choice import Guarding, StoreOptions
from interlock.errors import ConfigurationError, GuardRefused
from interlock.stores.dynamodb.address import TableAddress, parsed
from interlock.stores.leases import Holder

if TYPE_CHECKING:
    from interlock.coordination.guards import Guarded
    from interlock.coordination.operators import LeaseOperator
    from interlock.stores.dynamodb.store import DynamoStore


@dataclass(frozen=True)
class DynamoDatabase:
    """A `LeaseDatabase` in DynamoDB. Its guard is `grant.guard_item()`."""

    address: TableAddress
    options: StoreOptions

    @property
    def schema(self) -> str:
        return ""

    @property
    def guarding(self) -> Guarding:
        return _NoConnections()

    def open(self, holder: Holder, on_reconnected: Callable[[str], object]) -> "DynamoStore":
        """Open the store. `on_reconnected` is never called, because requests to DynamoDB keep no connection that could
        be opened again."""
        from interlock.stores.dynamodb.store import DynamoStore

        return DynamoStore(self.address, holder=holder, timeout=self.options.timeout)

    @asynccontextmanager
    async def operator(self) -> "AsyncIterator[LeaseOperator]":
        from interlock.coordination.operators.dynamodb import DynamoOperator
        from interlock.stores.dynamodb.operator import DynamoOperations

        store = DynamoOperations(self.address, holder=Holder("interlock command", "", 0), timeout=self.options.timeout)
        try:
            yield DynamoOperator(store)
        finally:
            await store.close()


class _NoConnections:
    """The guards of DynamoDB: no transaction stays open in DynamoDB, so a guard cannot be added to a transaction."""

    async def guard(self, grant: "Guarded", connection: Any) -> None:
        self.guard_sync(grant, connection)

    def guard_sync(self, grant: "Guarded", connection: Any) -> NoReturn:
        grant.check()
        raise GuardRefused(
            f"The lease {grant.name!r} is kept in DynamoDB, so a connection cannot carry its guard: put "
            "grant.guard_item() into the TransactItems of your TransactWriteItems.",
            name=grant.name,
        )


def from_url(url: str, options: StoreOptions) -> DynamoDatabase:
    address = parsed(url)
    if options.schema not in (None, own_schema()) or options.password is not None or options.pooler != "detect":
        raise ConfigurationError(
            "The options schema, password and pooler are only for PostgreSQL: leave them out for a DynamoDB table."
        )
    require_driver()
    return DynamoDatabase(address, options)


def require_driver() -> None:
    try:
        import interlock.stores.dynamodb.store  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("interlock"):
            raise
        raise ConfigurationError(
            f"Leases on DynamoDB need {error.name}, which is not installed: run pip install 'interlock[dynamodb]'."
        ) from error
