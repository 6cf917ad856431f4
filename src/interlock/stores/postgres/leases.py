"""Leases on PostgreSQL: the SQL functions of Interlock's schema, called in batches.

Connections of one process, each opened when it is first needed and closed when idle: one to acquire, one to release
meanwhile, one that carries heartbeats and nothing else, one that listens while somebody waits. Behind a pooler in
transaction mode there is no listening and nothing prepared: each call is a transaction, and waiters ask again in
growing steps.
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
"""Of a process that is stopped between a statement and its commit. It would keep others from the lease all the time."""

_ASK_AGAIN = 0.1
_KEEP_ALIVE = 20
"""Seconds between signs of life on the connection that listens, where nothing else passes for hours."""
_DEAD_AFTER = 6.0
"""So soon the server sees that a waiter's machine is gone, which said no goodbye."""
_MOST_WANTED = 4096


class PostgresLeases:
    """A `LeaseStore`, with `Listing`, `Turns` and `Records`.

    `timeout` is a statement's, on our side.
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
        self._wanted: dict[str, None] = {}
        """What we had to wait for, and others may be waiting for by now; the newest of it."""
        self._servers: list[ServerAddress] = []
        self._renewal_arguments = RenewalArguments()
        self._acquiring = ManagedConnection("acquire", self._connect, on_reconnected)
        self._releasing = ManagedConnection("release", self._connect, on_reconnected)
        self._beating = ManagedConnection("heartbeat", self._connect, on_reconnected)
        self._listening = ManagedConnection("listen", self._connect, on_reconnected)

    async def session(self) -> Session:
        """A connection that is open anyway, to look at the database before anything is asked of it."""
        return await self._acquiring.session()

    async def acquire(self, asks: Sequence[AcquireRequest]) -> list[AcquireAnswer]:
        answers = [await self._acquire_one(asks[0])] if len(asks) == 1 else await self._acquire_all(asks)
        for ask, answer in zip(asks, answers, strict=True):
            if answer.status == "busy" and ask.wait:
                self._expect_others(ask.name)
        return answers

    def _expect_others(self, name: str) -> None:
        """A name that was forgotten costs whoever waits for it a round trip."""
        self._wanted.pop(name, None)
        self._wanted[name] = None
        if len(self._wanted) > _MOST_WANTED:
            del self._wanted[next(iter(self._wanted))]

    async def _acquire_all(self, asks: Sequence[AcquireRequest]) -> list[AcquireAnswer]:
        answers = await self._acquire_many(asks)
        if unknown := [place for place, answer in enumerate(answers) if answer.status == "unknown"]:  # type: ignore[comparison-overlap] # stays in here
            await self._fetch(self._releasing, "register", [asks[place].name for place in unknown])
            again = await self._acquire_many([asks[place] for place in unknown])
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
                if not self._beating.is_open:  # the time that there is has to be enough for each of the servers
                    await self._beating.session(partial(self._connect, timeout=min(timeout, self._timeout)))
                (row,) = await self._fetch(
                    self._beating,
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

    async def abandon(self, asks: Sequence[AcquireRequest]) -> list[UUID]:
        names, grant_ids = [ask.name for ask in asks], [ask.grant_id for ask in asks]
        for name in names:
            self._wanted.pop(name, None)
        return self._own(await self._fetch(self._any, "abandon", names, grant_ids, self._listener))

    async def offer(self, names: Sequence[str]) -> list[UUID]:
        return self._own(await self._fetch(self._any, "offer", list(names), self._listener))

    async def subscribe(self, on_turn: OnTurn, on_end: Callable[[], None]) -> bool:
        if self._pooled is None:
            await self._acquiring.session()
        if self._pooled:
            return False
        await self._beating.session()  # what is handed on has to be renewed within a second: no time to connect
        session = await self._listening.session()
        try:
            listener = await self._open_ear(session, on_turn)
        except (errors.StoreError, asyncio.CancelledError):
            self._listening.drop(session)
            raise
        self._listener = listener

        def end() -> None:
            if self._listener == listener:  # and not one that came after it
                self._listener = None
                on_end()

        session.on_end(end)
        if session.is_closed:  # just before we asked to be told
            self._listener = None
            raise errors.ConnectionLost(f"The connection to {session.shown_url} ended.")
        return True

    async def _open_ear(self, session: Session, on_turn: OnTurn) -> int:
        session.keep_alive(_KEEP_ALIVE)
        await configure(session, noticing_a_dead_network(_DEAD_AFTER))
        listener = random.randrange(1, 2**31)
        while not await session.fetchval(self._sql["show_alive"], listener):
            listener = random.randrange(1, 2**31)
        await session.listen(f"interlock_{listener}", lambda payload: on_turn(*_heard(payload)))
        return listener

    async def _check_ear(self, session: Session) -> None:
        """Where another server has taken over, nobody tells us anything on what still leads to the one before, and our
        waiters look dead. It need not have ended: its machine says no goodbye, or it only takes no writes."""
        if not await session.fetchval(self._sql["is_alive"], self._listener):
            self._listening.hang_up()
            self._beating.hang_up()

    async def unsubscribe(self) -> None:
        self._listener = None
        await self._listening.close()

    async def sweep(self, unused_for: float) -> int:
        (row,) = await self._fetch(self._any, "sweep", unused_for)
        swept: int = row[0]
        return swept

    async def held(self, prefix: str) -> list[HeldLease]:
        return [HeldLease(*row) for row in await self._fetch(self._acquiring, "held", prefix)]

    async def is_contended(self, name: str) -> bool:
        (row,) = await self._fetch(self._acquiring, "wanted", name)
        return not self._pooled and bool(row[0])

    async def read(self, key: str) -> StoredRecord | None:
        rows = await self._fetch(self._acquiring, "read_record", key)
        return StoredRecord(*rows[0]) if rows else None

    async def write(self, key: str, value: str, grant: GrantIdentity) -> bool:
        (row,) = await self._fetch(self._acquiring, "write_record", key, value, grant.name, grant.token, grant.grant_id)
        return bool(row[0])

    async def delete_records(self, prefix: str, older_than: float) -> int:
        (row,) = await self._fetch(self._any, "forget_records", prefix, older_than)
        forgotten: int = row[0]
        return forgotten

    async def close_idle(self, idle_for: float) -> bool:
        for line in (self._acquiring, self._releasing, self._beating):
            if line is not self._beating or self._listener is None:
                await line.close_idle(idle_for)
        return not any(line.is_open for line in self._lines)

    async def close(self) -> None:
        self._listener = None
        for line in self._lines:
            await line.shut()

    def sever(self) -> None:
        """Let go of every connection without a word: the event loop has ended."""
        for line in self._lines:
            line.sever()

    @property
    def _any(self) -> ManagedConnection:
        """A release does not wait for an acquire, which waits for the disk. Where there is none, one line will do."""
        return self._acquiring if self._acquiring.is_free else self._releasing

    @property
    def _lines(self) -> tuple[ManagedConnection, ...]:
        return self._acquiring, self._releasing, self._beating, self._listening

    async def _acquire_one(self, ask: AcquireRequest) -> AcquireAnswer:
        holder = self._holder
        try:
            row = (await self._fetch(
                self._acquiring, "acquire_one", ask.name, ask.grant_id, ask.ttl, holder.replica, ask.metadata, ask.wait,
                holder.host, holder.pid, self._listener, self._beating.is_open,
            ))[0]  # fmt: skip
        except errors.LockNotAvailable:  # another transaction is just adding the name
            return AcquireAnswer("locked", 0, 0.0, _ASK_AGAIN, None)
        return AcquireAnswer(row[0], row[1] or 0, row[2] or 0.0, row[3] or 0.0, row[4], row[5] or 0.0)

    async def _acquire_many(self, asks: Sequence[AcquireRequest]) -> list[AcquireAnswer]:
        holder = self._holder
        rows = await self._fetch(
            self._acquiring,
            "acquire_many",
            [ask.name for ask in asks],
            [ask.grant_id for ask in asks],
            [ask.ttl for ask in asks],
            [ask.metadata for ask in asks],
            [ask.wait for ask in asks],
            holder.replica,
            holder.host,
            holder.pid,
            self._listener,
            self._beating.is_open,
        )
        answers: list[Any] = [None] * len(asks)
        for request, status, token, remaining, retry_after, held_by, clock in rows:
            answers[request - 1] = AcquireAnswer(
                status, token or 0, remaining or 0.0, retry_after or 0.0, held_by, clock or 0.0
            )
        return answers

    async def _release_one(self, grant: GrantIdentity) -> ReleaseAnswer:
        """Handing it on takes two commits, which in a transaction there cannot be; and a little longer, for nothing if
        nobody waits. Who does not expect anybody calls whoever is there, after all."""
        query = "release_one" if self._pooled or grant.name not in self._wanted else "hand_on"
        (row,) = await self._fetch(self._any, query, grant.name, grant.token, grant.grant_id, self._listener)
        status, offered, elsewhere, token, until = row
        if offered is None:
            self._wanted.pop(grant.name, None)
        if token is None:
            return ReleaseAnswer(status, offered, bool(elsewhere))
        return ReleaseAnswer(status, offered, elsewhere, HandedGrant(token, until))

    async def _release_many(self, grants: Sequence[GrantIdentity], *, if_waited: bool) -> list[ReleaseAnswer]:
        rows = await self._fetch(
            self._any,
            "release_many",
            [grant.name for grant in grants],
            [grant.token for grant in grants],
            [grant.grant_id for grant in grants],
            self._listener,
            if_waited,
        )
        answers: list[Any] = [None] * len(grants)
        for request, status, offered, elsewhere in rows:
            if offered is None:
                self._wanted.pop(grants[request - 1].name, None)
            answers[request - 1] = ReleaseAnswer(status, offered, bool(elsewhere))
        return answers

    def _own(self, rows: Sequence[Row]) -> list[UUID]:
        return [row["grant_id"] for row in rows if row["listener"] == self._listener]

    async def _fetch(self, line: ManagedConnection, query: str, *args: Any) -> list[Row]:
        session = await line.session()
        try:
            if not self._pooled:
                return await session.fetch(self._sql[query], *args)
            async with session.transaction(longest_pause=_LONGEST_PAUSE):
                return await session.fetch(self._sql[query], *args)
        except (errors.StatementFailed, errors.LockNotAvailable, errors.PermissionMissing):
            raise
        except BaseException:  # it stopped in the middle, for one: the answer would meet the next statement
            line.drop(session)
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
                if self._pooled:  # where statements must not stay prepared
                    await session.close()
                    return await self._connect(purpose, timeout)
            if not self._pooled:  # there each statement has a transaction of its own that says so
                await session.execute("SET default_transaction_isolation = 'read committed'")
            if purpose == "acquire" and self._listener is not None:
                await self._check_ear(session)
        except (errors.StoreError, asyncio.CancelledError):
            session.hang_up()  # nobody else knows of it
            raise
        return session


async def _is_pooled(session: Session) -> bool:
    """Asked in a way that prepares nothing: through a pooler that would stay behind in somebody's session."""
    return await session.execute(f"SELECT WHERE pg_backend_pid() = {session.announced_pid}") != "SELECT 1"


def _heard(payload: str) -> tuple[UUID | None, HandedGrant | None]:
    if not payload:
        return None, None
    grant_id, *handed = payload.split()
    return UUID(grant_id), HandedGrant(int(handed[0]), float(handed[1])) if handed else None
