"""Leases in a SQLite file, for the processes of one machine.

The reading thread first checks a request that will not wait: if that request fails, it waits for no other process and
writes nothing. The writing thread decides a request that may be granted or will wait.
"""

import asyncio
import sqlite3
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from interlock import errors
from interlock.clock import boottime
from interlock.stores.capabilities import HeldLease, StoredRecord
from interlock.stores.leases import (
    AcquireAnswer,
    AcquireRequest,
    GrantIdentity,
    Holder,
    OnTurn,
    ReleaseAnswer,
    RenewAnswer,
)
from interlock.stores.sqlite import decisions, queue
from interlock.stores.sqlite.boot import boot_id
from interlock.stores.sqlite.file import LeaseFile
from interlock.stores.sqlite.log import LogConnection
from interlock.stores.sqlite.reader import Reader
from interlock.stores.sqlite.transaction import SQL, WriteTransaction
from interlock.stores.sqlite.wakeups import WakeUpSender, WakeUpSocket
from interlock.stores.sqlite.writer import Writer

T = TypeVar("T")

_RELEASE_LOCK_TIMEOUT = 0.2
"""Seconds that a release waits for a user's transaction. It may be the caller's own, and end only after the release."""
_ACQUIRE_LOCK_TIMEOUT = 1.0
"""Seconds that a request waits for a user's transaction. Then the answer to the request is ``locked``."""
_ASK_AGAIN = 0.02
_STOP_TIMEOUT = 2.0
_MOST_SYNCED_RECORDS = 1000


class SqliteLeases:
    """A `LeaseStore` with all of `capabilities`. `timeout` is for one request."""

    def __init__(self, path: Path, holder: Holder, timeout: float) -> None:
        self._file = LeaseFile(path)
        self._holder = holder
        self._timeout = timeout
        self._reader = Reader(self._file, timeout)
        self._writer = Writer(self._file, timeout)
        self._subscription: WakeUpSocket | None = None
        self._on_end: Callable[[], None] = lambda: None
        self._used_at = 0.0
        self._synced_records: dict[str, tuple[int, float]] = {}
        """Token and time of records that are known to be on the disk: only the first read of a record waits for it."""
        weakref.finalize(self, _end, self._reader, self._writer).atexit = False

    async def verify(self) -> None:
        """Open the file for writing, as a lease needs it. Raises an error if the file cannot be used."""
        await self._write(lambda transaction: None, lock_timeout=self._timeout)

    async def acquire(self, requests: Sequence[AcquireRequest]) -> list[AcquireAnswer]:
        answers: list[AcquireAnswer | None] = [None] * len(requests)
        if not all(request.wait for request in requests):
            answers = await self._read(
                lambda file: [None if request.wait else decisions.peek(file, request) for request in requests]
            )
        if places := [place for place, answer in enumerate(answers) if answer is None]:
            found = await self._answer([requests[place] for place in places])
            for place, answer in zip(places, found, strict=True):
                answers[place] = answer
        return [answer for answer in answers if answer is not None]

    async def release(self, grants: Sequence[GrantIdentity]) -> list[ReleaseAnswer]:
        return await self._release(grants, if_waited=False)

    async def hand_over(self, grants: Sequence[GrantIdentity]) -> list[ReleaseAnswer]:
        return await self._release(grants, if_waited=True)

    async def renew(self, grants: Sequence[GrantIdentity], timeout: float) -> RenewAnswer:
        def renew(transaction: WriteTransaction) -> RenewAnswer:
            lost = decisions.renew(transaction, grants)
            found = {place: decisions.broken_by(transaction, grants[place]) for place in lost}
            broken = {place: operator for place, operator in found.items() if operator is not None}
            return RenewAnswer(lost, [], transaction.now, self._file.identity()[1], broken)

        return await self._write(renew, lock_timeout=timeout)

    async def abandon(self, requests: Sequence[AcquireRequest]) -> list[UUID]:
        def abandon(transaction: WriteTransaction) -> list[queue.Offer | None]:
            return [queue.leave(transaction, request.grant_id, self._listener) for request in requests]

        return self._own(await self._write(abandon, lock_timeout=self._timeout))

    async def offer(self, names: Sequence[str]) -> list[UUID]:
        def offer(transaction: WriteTransaction) -> list[queue.Offer | None]:
            free = [name for name in names if decisions.is_free(transaction, name)]
            return [queue.offer(transaction, name, self._listener) for name in free]

        return self._own(await self._write(offer, lock_timeout=self._timeout))

    async def subscribe(self, on_turn: OnTurn, on_end: Callable[[], None]) -> bool:
        await self.verify()  # so that the directory exists
        try:
            subscription = WakeUpSocket(self._file.side_directory, on_turn)
        except OSError:  # a file system without sockets, or a path that is too long for one
            return False
        if self._subscription is not None:
            self._subscription.close()
        self._subscription, self._on_end = subscription, on_end
        return True

    async def unsubscribe(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.close()

    async def sweep(self, unused_for: float) -> int:
        def sweep(transaction: WriteTransaction) -> int:
            transaction.wake_up_sender.clear()
            return decisions.sweep(transaction, unused_for, self._listener)

        return await self._write(sweep, lock_timeout=self._timeout)

    async def held(self, prefix: str) -> list[HeldLease]:
        def held(connection: sqlite3.Connection) -> list[HeldLease]:
            now = boottime()
            rows = connection.execute(SQL["held"], (now, boot_id(), now, prefix, prefix)).fetchall()
            return [HeldLease(*row) for row in rows]

        return await self._read(held)

    async def is_contended(self, name: str) -> bool:
        def is_contended(connection: sqlite3.Connection) -> bool:
            transaction = WriteTransaction(connection, WakeUpSender(self._file.side_directory))
            # In this order: a waiter that has left the queue meanwhile holds the lease.
            return queue.has_waiter(transaction, name, self._listener) or not decisions.is_free(transaction, name)

        return await self._read(is_contended)

    async def read(self, key: str) -> StoredRecord | None:
        def read(connection: LogConnection) -> StoredRecord | None:
            row = connection.execute(SQL["read_record"], (key,)).fetchone()
            return None if row is None else StoredRecord(*row)

        def is_new(record: StoredRecord | None) -> bool:
            """True if this process does not know yet that the record is on the disk. Then the answer waits for the
            disk, because the caller relies on the record."""
            return record is not None and self._synced_records.get(key) != (record.token, record.written_at)

        record = await self._read(read, is_new)
        if record is not None:
            self._note_synced(record)
        return record

    async def write(self, key: str, value: str, grant: GrantIdentity) -> bool:
        def write(transaction: WriteTransaction) -> bool:
            identity = grant.name, grant.token, str(grant.grant_id), boot_id(), transaction.now
            if not transaction.execute(SQL["is_current"], *identity).fetchone():
                return False
            transaction.execute(SQL["write_record"], key, grant.token, value, transaction.wall)
            transaction.durable = True
            return True

        return await self._write(write, lock_timeout=self._timeout)

    async def delete_records(self, prefix: str, older_than: float) -> int:
        def delete_records(transaction: WriteTransaction) -> int:
            since = transaction.wall - older_than
            return transaction.execute(SQL["delete_records"], since, prefix, prefix).rowcount

        return await self._write(delete_records, lock_timeout=self._timeout)

    async def close_idle(self, idle_for: float) -> bool:
        if self._subscription is None and boottime() - self._used_at >= idle_for:
            await self._stop()
        return self._subscription is None and not self._reader.is_running and not self._writer.is_running

    async def close(self) -> None:
        await self.unsubscribe()
        await self._stop()

    def sever(self) -> None:
        _end(self._reader, self._writer)
        if self._subscription is not None:
            self._subscription.close()

    @property
    def _listener(self) -> str | None:
        return self._subscription.name if self._subscription else None

    async def _answer(self, requests: Sequence[AcquireRequest]) -> list[AcquireAnswer]:
        listener = self._listener
        is_removed = False

        def answer(transaction: WriteTransaction) -> list[AcquireAnswer]:
            nonlocal is_removed
            is_removed = listener is not None and not transaction.is_alive(listener)
            live_listener = None if is_removed else listener
            return [decisions.decide(transaction, request, self._holder, live_listener) for request in requests]

        try:
            lock_timeout = min(_ACQUIRE_LOCK_TIMEOUT, self._timeout)
            answers = await self._write(answer, lock_timeout=lock_timeout)
        except errors.LockNotAvailable:
            return [AcquireAnswer("locked", 0, 0.0, _ASK_AGAIN, None)] * len(requests)
        if is_removed and self._listener == listener:  # the socket's file was deleted
            await self.unsubscribe()
            self._on_end()
        return answers

    async def _release(self, grants: Sequence[GrantIdentity], *, if_waited: bool) -> list[ReleaseAnswer]:
        def release(transaction: WriteTransaction) -> list[ReleaseAnswer]:
            return [decisions.release(transaction, grant, self._listener, if_waited=if_waited) for grant in grants]

        try:
            return await self._write(release, lock_timeout=_RELEASE_LOCK_TIMEOUT)
        except errors.LockNotAvailable:
            return [ReleaseAnswer("locked", None, False)] * len(grants)

    def _own(self, offers: Sequence[queue.Offer | None]) -> list[UUID]:
        return [offer.grant_id for offer in offers if offer is not None and offer.listener == self._listener]

    def _note_synced(self, record: StoredRecord) -> None:
        if len(self._synced_records) >= _MOST_SYNCED_RECORDS:
            self._synced_records.clear()
        self._synced_records[record.key] = record.token, record.written_at

    async def _read(self, work: Callable[[LogConnection], T], relied_on: Callable[[T], bool] = lambda _: False) -> T:
        self._used_at = boottime()
        return await self._reader.run(work, relied_on)

    async def _write(self, work: Callable[[WriteTransaction], T], *, lock_timeout: float) -> T:
        self._used_at = boottime()
        return await self._writer.run(work, lock_timeout=lock_timeout)

    async def _stop(self) -> None:
        """Stop the threads one after the other. A thread that waits for the writer lock is left waiting.

        The last connection of a file empties the log. If two are closed at once, SQLite takes neither for the last.
        """
        for worker in (self._reader, self._writer):
            if (thread := worker.stop()) is not None:
                await asyncio.to_thread(thread.join, _STOP_TIMEOUT)


def _end(reader: Reader, writer: Writer) -> None:
    """Stop the threads. Also called when a store is garbage-collected without being closed."""
    reader.stop()
    writer.stop()
