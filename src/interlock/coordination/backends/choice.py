"""Which database a URL names, and what that kind of database can do for a root object.

Each kind has a module of its own, imported when a URL asks for it: nobody needs the driver of a store that they do not
use. What only some kinds can do is a small interface beside `LeaseDatabase`. A root object asks for it when somebody
wants it, and where it is not there says so: no store makes a weaker promise under the same name.
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

_HOMES = {
    "dynamodb": "interlock.coordination.backends.dynamodb",
    "postgresql": "interlock.coordination.backends.postgres",
    "postgres": "interlock.coordination.backends.postgres",
    "sqlite": "interlock.coordination.backends.sqlite",
}
"""By the URL's scheme; each has a function `named(url, options)`, which opens nothing."""


class StoreOptions(NamedTuple):
    """What a root object was given for its database. Not every kind can take all of it. `timeout` is a statement's."""

    password: "Password | None"
    schema: str | None
    pooler: "Pooler"
    timeout: float


class OpenStore(LeaseStore, LeaseListing, RecordStore, Protocol):
    """The leases of one event loop."""

    async def verify(self) -> None:
        """Raise what is wrong with the database, before anything is asked of it or when it looks so."""

    def sever(self) -> None:
        """Let go of everything without a word: the event loop has ended."""


class Guarding(Protocol):
    """Puts the guard of a grant into a transaction of the user's own; see docs/how-to/guard.md."""

    async def guard(self, grant: "Guarded", connection: Any) -> None: ...

    def guard_sync(self, grant: "Guarded", connection: Any) -> None: ...


class LeaseDatabase(Protocol):
    """What a URL names, not opened yet: it may be kept across a fork, and opened on several event loops."""

    @property
    def schema(self) -> str:
        """The schema of Interlock's tables; empty where there is no such thing."""

    @property
    def guarding(self) -> Guarding: ...

    def open(self, holder: Holder, on_reconnected: Callable[[str], object]) -> OpenStore: ...

    def operator(self) -> AbstractAsyncContextManager["LeaseOperator"]:
        """What an operator sees of its leases and may do to them. Nothing is made that is not there."""


@runtime_checkable
class HasSessions(Protocol):
    """A database whose sessions can hold locks."""

    async def session(self, application_name: str) -> "Session": ...


@runtime_checkable
class GuardsByItem(Protocol):
    """A store whose guard is an item of a transaction that is sent as a whole."""

    def guard_item(self, grant: GrantIdentity) -> dict[str, Any]: ...


def choose_database(url: str, options: StoreOptions) -> LeaseDatabase:
    """Raises what is wrong with the URL, and with options that this kind of database has no use for."""
    database: LeaseDatabase = import_module(_HOMES[scheme_of(url)]).named(url, options)
    return database


def with_sessions(database: LeaseDatabase) -> HasSessions:
    if not isinstance(database, HasSessions):
        raise ConfigurationError(
            "Session locks are held by a session of PostgreSQL's, and this database has none: use a lease, "
            "or a postgresql:// URL."
        )
    return database
