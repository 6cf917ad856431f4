"""Leases on PostgreSQL: the SQL functions of Interlock's schema, called in batches.

A process has up to four connections, each opened when it is first needed and closed when idle: one to acquire leases,
one to release leases while an acquire is under way, one for renewals alone, and one that listens for notifications
while the process has waiters. Behind a pooler in transaction mode, Interlock does not listen and prepares no
statements: each call is a transaction, and waiters poll at growing intervals.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal
from uuid import UUID

from interlock import errors
from interlock.stores.capabilities import HeldLease, StoredRecord
from interlock.stores.leases import (
    AcquireAnswer,
    AcquireRequest,
    BrokenBy,
    GrantIdentity,
    HandedGrant,
    Holder,
    OnTurn,
    ReleaseAnswer,
    RenewAnswer,
)
from interlock.stores.postgres.connection import Password, connect
from interlock.stores.postgres.direct_connection import configure, noticing_a_dead_network
from interlock.stores.postgres.managed_connection import ManagedConnection
from interlock.stores.postgres.queries import Queries
from interlock.stores.postgres.renewal_arguments import RenewalArguments
from interlock.stores.postgres.session import Row, Session
from interlock.stores.postgres.url import ServerAddress

Pooler = Literal["detect", "transaction", "none"]

_LONGEST_PAUSE = 1.0
"""Seconds that a process may be stopped between a statement and its commit: it may block the lease for that long."""

_ASK_AGAIN = 0.1
_KEEP_ALIVE = 20
"""Seconds between keep-alive probes on the connection that listens, which may otherwise be silent for hours."""
_DEAD_AFTER = 6.0
"""Seconds after which the server notices that a waiter's machine is gone without closing its connection."""
_MOST_CONTENDED = 4096


class PostgresLeases:
    """A `LeaseStore` with all of `capabilities`.

    `timeout` is the time for one statement, measured by this process.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str,
        holder: Holder,
        password: Password | None = None,
        pooler: Pooler = "detect",
        timeout: float = 5.0,
        on_reconnected: Callable[[str], object] = lambda purpose: None,
    ) -> None:
        self.schema = schema
        self._url = url
        self._password = password
        self._holder = holder
        self._timeout = timeout
        self._sql = Queries("interlock.stores.postgres", "leases.sql", schema)
        self._pooled: bool | None = None if pooler == "detect" else pooler == "transaction"
        self._listener: int | None = None
        self._contended: dict[str, None] = {}
        """The names that this process last had to wait for: other processes may wait for them too."""
        self._servers: list[ServerAddress] = []
        self._renewal_arguments = RenewalArguments()
        self._acquire_connection = ManagedConnection("acquire", self._connect, on_reconnected)
        self._release_connection = ManagedConnection("release", self._connect, on_reconnected)
        self._renew_connection = ManagedConnection("heartbeat", self._connect, on_reconnected)
        self._listen_connection = ManagedConnection("listen", self._connect, on_reconnected)

    async def session(self) -> Session:
        """Returns the connection that acquires leases, for checks of the database before its first use."""
        return await self._acquire_connection.session()

    async def acquire(self, requests: Sequence[AcquireRequest]) -> list[AcquireAnswer]:
        answers = [await self._acquire_one(requests[0])] if len(requests) == 1 else await self._acquire_all(requests)
        for request, answer in zip(requests, answers, strict=True):
            if answer.status == "busy" and request.wait:
                self._note_contention(request.name)
        return answers

    def _note_contention(self, name: str) -> None:
        """Note a name that this process had to wait for. If a name is dropped, its waiter costs a round trip more."""
        self._contended.pop(name, None)
        self._contended[name] = None
        if len(self._contended) > _MOST_CONTENDED:
            del self._contended[next(iter(self._contended))]

    async def _acquire_all(self, requests: Sequence[AcquireRequest]) -> list[AcquireAnswer]:
        answers = await self._acquire_many(requests)
        if unknown := [place for place, answer in enumerate(answers) if answer.status == "unknown"]:  # type: ignore[comparison-overlap] # stays in here
            await self._fetch(self._release_connection, "register", [requests[place].name for place in unknown])
            again = await self._acquire_many([requests[place] for place in unknown])
            for place, answer in zip(unknown, again, strict=True):
                answers[place] = answer
        return answers

    async def release(self, grants: Sequence[GrantIdentity]) -> list[ReleaseAnswer]:
        if len(grants) == 1:
            return [await self._release_one(grants[0])]
        return await self._release_many(grants, if_waited=False)

    async def hand_over(self, grants: Sequence[GrantIdentity]) -> list[ReleaseAnswer]:
        return await self._release_many(grants, if_waited=True)

    async def renew(self, grants: Sequence[GrantIdentity], timeout: float) -> RenewAnswer:
        ttls = {grant.ttl for grant in grants}
        try:
            async with asyncio.timeout(timeout):
                if not self._renew_connection.is_open:  # the timeout has to be enough for every server of the URL
                    await self._renew_connection.session(partial(self._connect, timeout=min(timeout, self._timeout)))
                (row,) = await self._fetch(
                    self._renew_connection,
                    "renew",
                    *self._renewal_arguments.of(grants),
                    list(ttls) if len(ttls) == 1 else [grant.ttl for grant in grants],
                )
        except TimeoutError as error:
            raise errors.DatabaseUnreachable(f"A renewal was not answered within {timeout:g} s.") from error
        return RenewAnswer(
            [place - 1 for place in row["lost"] or ()],
            [place - 1 for place in row["locked"] or ()],
            row["clock"],
            row["timeline"],
            {
                place - 1: BrokenBy(operator, reason)
                for place, operator, reason in zip(
                    row["broken"] or (), row["broken_by"] or (), row["broken_why"] or (), strict=True
                )
            },
        )

    async def abandon(self, requests: Sequence[AcquireRequest]) -> list[UUID]:
        names, grant_ids = [request.name for request in requests], [request.grant_id for request in requests]
        for name in names:
            self._contended.pop(name, None)
        return self._own(await self._fetch(self._free_connection, "abandon", names, grant_ids, self._listener))

    async def offer(self, names: Sequence[str]) -> list[UUID]:
        return self._own(await self._fetch(self._free_connection, "offer", list(names), self._listener))

    async def subscribe(self, on_turn: OnTurn, on_end: Callable[[], None]) -> bool:
        if self._pooled is None:
            await self._acquire_connection.session()
        if self._pooled:
            return False
        await (
            self._renew_connection.session()
        )  # a grant that is handed over has to be renewed within a second: too short to connect
        session = await self._listen_connection.session()
        try:
            listener = await self._start_listening(session, on_turn)
        except (errors.StoreError, asyncio.CancelledError):
            self._listen_connection.drop(session)
            raise
        self._listener = listener

        def end() -> None:
            if self._listener == listener:  # and not a later one
                self._listener = None
                on_end()

        session.on_end(end)
        if session.is_closed:  # before the callback was registered
            self._listener = None
            raise errors.ConnectionLost(f"The connection to {session.shown_url} ended.")
        return True

    async def _start_listening(self, session: Session, on_turn: OnTurn) -> int:
        session.keep_alive(_KEEP_ALIVE)
        await configure(session, noticing_a_dead_network(_DEAD_AFTER))
        listener = random.randrange(1, 2**31)
        while not await session.fetchval(self._sql["show_alive"], listener):
            listener = random.randrange(1, 2**31)
        await session.listen(f"interlock_{listener}", lambda payload: on_turn(*_parsed(payload)))
        return listener

    async def _check_subscription(self, session: Session) -> None:
        """After a failover, connections to the old primary get no notifications, so this process's waiters appear dead.

        Such a connection may still look open: the old machine is gone without closing it, or is only read-only now.
        """
        if not await session.fetchval(self._sql["is_alive"], self._listener):
            self._listen_connection.hang_up()
            self._renew_connection.hang_up()

    async def unsubscribe(self) -> None:
        self._listener = None
        await self._listen_connection.close()

    async def sweep(self, unused_for: float) -> int:
        (row,) = await self._fetch(self._free_connection, "sweep", unused_for)
        swept: int = row[0]
        return swept

    async def held(self, prefix: str) -> list[HeldLease]:
        return [HeldLease(*row) for row in await self._fetch(self._acquire_connection, "held", prefix)]

    async def is_contended(self, name: str) -> bool:
        (row,) = await self._fetch(self._acquire_connection, "is_contended", name)
        return not self._pooled and bool(row[0])

    async def read(self, key: str) -> StoredRecord | None:
        rows = await self._fetch(self._acquire_connection, "read_record", key)
        return StoredRecord(*rows[0]) if rows else None

    async def write(self, key: str, value: str, grant: GrantIdentity) -> bool:
        (row,) = await self._fetch(
            self._acquire_connection, "write_record", key, value, grant.name, grant.token, grant.grant_id
        )
        return bool(row[0])

    async def delete_records(self, prefix: str, older_than: float) -> int:
        (row,) = await self._fetch(self._free_connection, "delete_records", prefix, older_than)
        deleted: int = row[0]
        return deleted

    async def close_idle(self, idle_for: float) -> bool:
        for connection in (self._acquire_connection, self._release_connection, self._renew_connection):
            if connection is not self._renew_connection or self._listener is None:
                await connection.close_idle(idle_for)
        return not any(connection.is_open for connection in self._connections)

    async def close(self) -> None:
        self._listener = None
        for connection in self._connections:
            await connection.shut()

    def sever(self) -> None:
        """Close every connection without a message to the server: the event loop has ended."""
        for connection in self._connections:
            connection.sever()

    @property
    def _free_connection(self) -> ManagedConnection:
        """The acquire connection if it is idle, else the release connection.

        A release must not wait until the disk write of an acquire has ended.
        """
        return self._acquire_connection if self._acquire_connection.is_free else self._release_connection

    @property
    def _connections(self) -> tuple[ManagedConnection, ...]:
        return self._acquire_connection, self._release_connection, self._renew_connection, self._listen_connection

    async def _acquire_one(self, request: AcquireRequest) -> AcquireAnswer:
        holder = self._holder
        try:
            row = (await self._fetch(
                self._acquire_connection, "acquire_one",
                request.name, request.grant_id, request.ttl, holder.replica, request.metadata, request.wait,
                holder.host, holder.pid, self._listener, self._renew_connection.is_open,
            ))[0]  # fmt: skip
        except errors.LockNotAvailable:  # another transaction is adding the name
            return AcquireAnswer("locked", 0, 0.0, _ASK_AGAIN, None)
        return AcquireAnswer(row[0], row[1] or 0, row[2] or 0.0, row[3] or 0.0, row[4], row[5] or 0.0)

    async def _acquire_many(self, requests: Sequence[AcquireRequest]) -> list[AcquireAnswer]:
        holder = self._holder
        rows = await self._fetch(
            self._acquire_connection,
            "acquire_many",
            [request.name for request in requests],
            [request.grant_id for request in requests],
            [request.ttl for request in requests],
            [request.metadata for request in requests],
            [request.wait for request in requests],
            holder.replica,
            holder.host,
            holder.pid,
            self._listener,
            self._renew_connection.is_open,
        )
        answers: list[Any] = [None] * len(requests)
        for number, status, token, remaining, retry_after, held_by, clock in rows:
            answers[number - 1] = AcquireAnswer(
                status, token or 0, remaining or 0.0, retry_after or 0.0, held_by, clock or 0.0
            )
        return answers

    async def _release_one(self, grant: GrantIdentity) -> ReleaseAnswer:
        """Release, and hand the lease over if waiters are expected.

        A hand-over takes two commits, which is not possible in a pooler's transaction and is wasted without a waiter.
        If the lease has an unexpected waiter, a plain release still notifies that waiter.
        """
        query = "release_one" if self._pooled or grant.name not in self._contended else "hand_over"
        (row,) = await self._fetch(
            self._free_connection, query, grant.name, grant.token, grant.grant_id, self._listener
        )
        status, offered, elsewhere, token, until = row
        if offered is None:
            self._contended.pop(grant.name, None)
        if token is None:
            return ReleaseAnswer(status, offered, bool(elsewhere))
        return ReleaseAnswer(status, offered, elsewhere, HandedGrant(token, until))

    async def _release_many(self, grants: Sequence[GrantIdentity], *, if_waited: bool) -> list[ReleaseAnswer]:
        rows = await self._fetch(
            self._free_connection,
            "release_many",
            [grant.name for grant in grants],
            [grant.token for grant in grants],
            [grant.grant_id for grant in grants],
            self._listener,
            if_waited,
        )
        answers: list[Any] = [None] * len(grants)
        for number, status, offered, elsewhere in rows:
            if offered is None:
                self._contended.pop(grants[number - 1].name, None)
            answers[number - 1] = ReleaseAnswer(status, offered, bool(elsewhere))
        return answers

    def _own(self, rows: Sequence[Row]) -> list[UUID]:
        return [row["grant_id"] for row in rows if row["listener"] == self._listener]

    async def _fetch(self, connection: ManagedConnection, query: str, *args: Any) -> list[Row]:
        session = await connection.session()
        try:
            if not self._pooled:
                return await session.fetch(self._sql[query], *args)
            async with session.transaction(longest_pause=_LONGEST_PAUSE):
                return await session.fetch(self._sql[query], *args)
        except (errors.StatementFailed, errors.LockNotAvailable, errors.PermissionMissing):
            raise
        except BaseException:  # such as a cancellation: the late answer would be taken for that of the next statement
            connection.drop(session)
            raise

    async def _connect(self, purpose: str, timeout: float | None = None) -> Session:
        session = await connect(
            self._url,
            application_name=f"interlock {purpose} {self._holder.replica}",
            timeout=timeout or self._timeout,
            statement_timeout=self._timeout,
            password=self._password,
            prepared=not self._pooled,
            servers=self._servers,
        )
        try:
            if self._pooled is None:
                self._pooled = await _is_pooled(session)
                if self._pooled:  # this session prepares statements, which must not stay in a pooled one
                    await session.close()
                    return await self._connect(purpose, timeout)
            if not self._pooled:  # behind a pooler each statement has its own transaction, which sets it
                await session.execute("SET default_transaction_isolation = 'read committed'")
            if purpose == "acquire" and self._listener is not None:
                await self._check_subscription(session)
        except (errors.StoreError, asyncio.CancelledError):
            session.hang_up()  # nothing else has a reference to it
            raise
        return session


async def _is_pooled(session: Session) -> bool:
    """True if a pooler answers. The check prepares no statement, which a pooler would leave to another client."""
    return await session.execute(f"SELECT WHERE pg_backend_pid() = {session.announced_pid}") != "SELECT 1"


def _parsed(payload: str) -> tuple[UUID | None, HandedGrant | None]:
    if not payload:
        return None, None
    grant_id, *handed = payload.split()
    return UUID(grant_id), HandedGrant(int(handed[0]), float(handed[1])) if handed else None
