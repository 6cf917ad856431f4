"""Names with one owner each in two systems: Interlock's claims, and rows that lock names themselves.

The second is broken in many ways, and shows that the scenarios find the faults.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import psycopg

from interlock import Interlock
from interlock.coordination.claims import Claimed, Pending, Taken, dns_label
from support.postgres import execute

Answer = tuple[str, str | None]
"""``("yours", None)``, ``("taken", its owner)``, ``("open", None)``, ``("refused", None)``, ``("none", None)``."""

YOURS: Answer = ("yours", None)
REFUSED: Answer = ("refused", None)
NONE: Answer = ("none", None)


class NameLock(Protocol):
    def claim(self, connection: psycopg.Connection, name: str | None, owner: str, resource: str) -> Answer:
        """Record that `owner` creates `resource` under that name, in the transaction that is open."""

    def begin_removing(self, connection: psycopg.Connection, name: str, owner: str, resource: str) -> None:
        """The removal has begun, and parts of the resource still exist."""

    def finish_removing(self, connection: psycopg.Connection, name: str, owner: str, resource: str) -> None:
        """Nothing of the resource exists any more."""

    def owners(self, connection: psycopg.Connection, name: str) -> list[str]:
        """All owners of the name so far, in order."""


class ClaimedNames:
    """Interlock's claims: the name and the resource are claims of the same owner."""

    def __init__(self, url: str) -> None:
        locks = Interlock(url)
        self._names = locks.claims("dns", names=dns_label)
        self._resources = locks.claims("resource")

    def claim(self, connection: psycopg.Connection, name: str | None, owner: str, resource: str) -> Answer:
        for claims, wanted in ((self._resources, resource), (self._names, name)):
            match claims.claim(connection, wanted, owner):
                case Claimed():
                    pass
                case None:
                    return NONE
                case Taken(owner=other):
                    return "taken", other
                case Pending():
                    return "open", None
                case _:
                    return REFUSED
        return YOURS

    def begin_removing(self, connection: psycopg.Connection, name: str, owner: str, resource: str) -> None:
        self._names.release(connection, name, owner, gone=False)

    def finish_removing(self, connection: psycopg.Connection, name: str, owner: str, resource: str) -> None:
        self._resources.release(connection, resource, owner, gone=True)
        self._names.release(connection, name, owner, gone=True)

    def owners(self, connection: psycopg.Connection, name: str) -> list[str]:
        return [past.owner for past in self._names.history(connection, name)]


TABLE = r"""
    CREATE TABLE resources (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        resource text UNIQUE NOT NULL,
        dns_name text,
        state text NOT NULL,
        created_by text NOT NULL
    );
    CREATE UNIQUE INDEX resources_dns_name ON resources (dns_name)
     WHERE dns_name IS NOT NULL AND dns_name NOT LIKE '__deleted_%' AND state IN ('creating', 'running')
"""
_INSERT = """
    INSERT INTO resources (resource, dns_name, state, created_by) VALUES (%s, %s, 'creating', %s)
        ON CONFLICT (resource) DO UPDATE SET dns_name = excluded.dns_name
     WHERE resources.created_by = excluded.created_by
    RETURNING id
"""
_OWNER = r"""
    SELECT created_by FROM resources
     WHERE dns_name = %s AND dns_name NOT LIKE '__deleted_%%' AND state IN ('creating', 'running') FOR UPDATE
"""


class LockingRows:
    """The row of a resource holds its name while it is being created and while it runs, unless a prefix marks the name.

    A conflict is detected by the error, and its owner is read after that. An existing row is written again.
    """

    def __init__(self, url: str) -> None:
        execute(url, TABLE)

    def claim(self, connection: psycopg.Connection, name: str | None, owner: str, resource: str) -> Answer:
        try:
            row = connection.execute(_INSERT, [resource, name, owner]).fetchone()
        except psycopg.errors.UniqueViolation:
            [[other]] = connection.execute(_OWNER, [name])
            return YOURS if other == owner else ("taken", other)
        if row is None:
            raise RuntimeError("This is never reached.")
        return YOURS if name is not None else NONE

    def begin_removing(self, connection: psycopg.Connection, name: str, owner: str, resource: str) -> None:
        connection.execute("UPDATE resources SET state = 'deleting' WHERE resource = %s", [resource])

    def finish_removing(self, connection: psycopg.Connection, name: str, owner: str, resource: str) -> None:
        freed = "UPDATE resources SET dns_name = '__deleted_' || dns_name WHERE resource = %s"
        connection.execute(freed, [resource])

    def forget(self, connection: psycopg.Connection, resource: str) -> None:
        """Mark the row of a removed resource."""
        connection.execute("DELETE FROM resources WHERE resource = %s", [resource])

    def owners(self, connection: psycopg.Connection, name: str) -> list[str]:
        found: list[tuple[Any, ...]] = connection.execute(
            "SELECT created_by FROM resources WHERE dns_name IN (%s, %s) ORDER BY id", [name, "__deleted_" + name]
        ).fetchall()
        return [owner for (owner,) in found]


class ForgettingRows(LockingRows):
    """Like `LockingRows`, but the row is deleted with the resource."""

    def finish_removing(self, connection: psycopg.Connection, name: str, owner: str, resource: str) -> None:
        self.forget(connection, resource)


@contextmanager
def transaction(url: str) -> Iterator[psycopg.Connection]:
    """A transaction on its own connection. A statement that would wait for a lock fails."""
    with psycopg.connect(url, options="-c statement_timeout=10s") as connection:
        yield connection
