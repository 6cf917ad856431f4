"""The choice of the database of a URL, and the interfaces of a database that keeps leases.

Each kind of database has a module of its own, which is imported only for a URL of that kind: the drivers of other
databases need not be installed. A feature that only some kinds have is a small interface beside `LeaseDatabase`. If a
database lacks a feature, the root object raises an error when the feature is used: no store makes a weaker promise
under the same name.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from interlock.errors import ConfigurationError
from interlock.stores.capabilities import LeaseListing, RecordStore
from interlock.stores.leases import GrantIdentity, Holder, LeaseStore
from interlock.stores.scheme import scheme_of

if TYPE_CHECKING:
    from interlock.coordination.guards import Guarded
    from interlock.coordination.operators import LeaseOperator
    from interlock.stores.postgres.connection import Password
    from interlock.stores.postgres.leases import Pooler
    from interlock.stores.postgres.session import Session

_MODULES = {
    "dynamodb": "interlock.coordination.backends.dynamodb",
    "postgresql": "interlock.coordination.backends.postgres",
    "postgres": "interlock.coordination.backends.postgres",
    "sqlite": "interlock.coordination.backends.sqlite",
}
"""The module of each URL scheme. Each module has a function `from_url(url, options)`, which opens no connection."""


class StoreOptions(NamedTuple):
    """A root object's options for its database. Not every kind of database takes all of them. `timeout` limits each
    statement."""

    password: "Password | None"
    schema: str | None
    pooler: "Pooler"
    timeout: float


class OpenStore(LeaseStore, LeaseListing, RecordStore, Protocol):
    """The store of the leases of one event loop."""

    async def verify(self) -> None:
        """Raise an error if the database cannot serve. This method is called before the first request and after a
        suspect failure."""

    def sever(self) -> None:
        """Drop all connections without a message to the server, because their event loop has ended."""


class Guarding(Protocol):
    """Adds the guard of a grant to a transaction of the user; see docs/how-to/guard.md."""

    async def guard(self, grant: "Guarded", connection: Any) -> None: ...

    def guard_sync(self, grant: "Guarded", connection: Any) -> None: ...


class LeaseDatabase(Protocol):
    """The database of a URL, not opened yet: the object may be kept across a fork, and opened on several event
    loops."""

    @property
    def schema(self) -> str:
        """The schema of Interlock's tables; empty where the database has no schemas."""

    @property
    def guarding(self) -> Guarding: ...

    def open(self, holder: Holder, on_reconnected: Callable[[str], object]) -> OpenStore: ...

    def operator(self) -> AbstractAsyncContextManager["LeaseOperator"]:
        """Open an operator that reads and breaks leases. Missing tables and files are not created."""


@runtime_checkable
class HasSessions(Protocol):
    """A database whose sessions can hold locks."""

    async def session(self, application_name: str) -> "Session": ...


@runtime_checkable
class GuardsByItem(Protocol):
    """A store whose guard is one item of a transaction that is sent as a whole."""

    def guard_item(self, grant: GrantIdentity) -> dict[str, Any]: ...


def choose_database(url: str, options: StoreOptions) -> LeaseDatabase:
    """Returns the database of the URL. Raises `ConfigurationError` for a wrong URL, or for an option that this kind of
    database does not take."""
    database: LeaseDatabase = import_module(_MODULES[scheme_of(url)]).from_url(url, options)
    return database


def with_sessions(database: LeaseDatabase) -> HasSessions:
    if not isinstance(database, HasSessions):
        raise ConfigurationError(
            "A session lock needs a session of PostgreSQL, and this database has no sessions: use a lease, "
            "or a postgresql:// URL."
        )
    return database
