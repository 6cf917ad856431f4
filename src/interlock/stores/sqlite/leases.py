"""Leases in a SQLite file, for the processes of one machine.

An ask that will not wait is first looked at by the thread that reads: one that fails waits for nobody and writes
nothing. What may be granted, and whoever will wait, goes to the thread that writes, and is decided there.
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
from interlock.stores.sqlite.wakeups import Ear, WakeUps
from interlock.stores.sqlite.writer import Writer

T = TypeVar("T")

_BRIEFLY = 0.2
"""How long a release waits for a transaction of the user's own. It may be the caller's, which would wait for itself."""
_A_WHILE = 1.0
"""How long a wish waits for one. Whoever asks once is then told that it is not to be had now."""
_ASK_AGAIN = 0.02
_FAREWELL = 2.0
_REMEMBERED = 1000


class SqliteLeases:
    """A `LeaseStore`, with `Listing`, `Turns` and `Records`. `timeout` is for one request."""

    def __init__(self, path: Path, holder: Holder, timeout: float) -> None:
        self._file = LeaseFile(path)
        self._holder = holder
        self._timeout = timeout
        self._reader = Reader(self._file, timeout)
        self._writer = Writer(self._file, timeout)
        self._ear: Ear | None = None
        self._on_end: Callable[[], None] = lambda: None
        self._used_at = 0.0
        self._on_disk: dict[str, tuple[int, float]] = {}
        """Records that were seen to be there, by token and time: what is read again and again waits once."""
        weakref.finalize(self, _end, self._reader, self._writer).atexit = False

    async def verify(self) -> None:
        """Opens the file for writing as well: that is what a lease will need."""
        await self._write(lambda transaction: None, patience=self._timeout)

    async def acquire(self, requests: Sequence[AcquireRequest]) -> list[AcquireAnswer]:
        answers: list[AcquireAnswer | None] = [None] * len(requests)
        if not all(request.wait for request in requests):
            answers = await self._read(
                lambda file: [None if request.wait else decisions.look(file, request) for request in requests]
            )
        if places := [place for place, known in enumerate(answers) if known is None]:
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

        return await self._write(renew, patience=timeout)

    async def abandon(self, requests: Sequence[AcquireRequest]) -> list[UUID]:
        def abandon(transaction: WriteTransaction) -> list[queue.Offer | None]:
            return [queue.leave(transaction, request.grant_id, self._listener) for request in requests]

        return self._own(await self._write(abandon, patience=self._timeout))

    async def offer(self, names: Sequence[str]) -> list[UUID]:
        def offer(transaction: WriteTransaction) -> list[queue.Offer | None]:
            free = [name for name in names if decisions.is_free(transaction, name)]
            return [queue.offer(transaction, name, self._listener) for name in free]

        return self._own(await self._write(offer, patience=self._timeout))

    async def subscribe(self, on_turn: OnTurn, on_end: Callable[[], None]) -> bool:
        await self.verify()  # the directory is there then
        try:
            ear = Ear(self._file.beside, on_turn)
        except OSError:  # a file system without sockets, or a path too long for one
            return False
        if self._ear is not None:
            self._ear.close()
        self._ear, self._on_end = ear, on_end
        return True

    async def unsubscribe(self) -> None:
        ear, self._ear = self._ear, None
        if ear is not None:
            ear.close()

    async def sweep(self, unused_for: float) -> int:
        def sweep(transaction: WriteTransaction) -> int:
            transaction.bells.clear()
            return decisions.sweep(transaction, unused_for, self._listener)

        return await self._write(sweep, patience=self._timeout)

    async def held(self, prefix: str) -> list[HeldLease]:
        def held(connection: sqlite3.Connection) -> list[HeldLease]:
            now = boottime()
            rows = connection.execute(SQL["held"], (now, boot_id(), now, prefix, prefix)).fetchall()
            return [HeldLease(*row) for row in rows]

        return await self._read(held)

    async def is_contended(self, name: str) -> bool:
        def is_contended(connection: sqlite3.Connection) -> bool:
            looking = WriteTransaction(connection, WakeUps(self._file.beside))
            # In this order: who is in the queue no more has the lease already.
            return queue.is_waited(looking, name, self._listener) or not decisions.is_free(looking, name)

        return await self._read(is_contended)

    async def read(self, key: str) -> StoredRecord | None:
        def read(connection: LogConnection) -> StoredRecord | None:
            row = connection.execute(SQL["read_record"], (key,)).fetchone()
            return None if row is None else StoredRecord(*row)

        def is_new(record: StoredRecord | None) -> bool:
            """Whoever wrote it may still be about to put it on the disk, and we let somebody rely on it."""
            return record is not None and self._on_disk.get(key) != (record.token, record.written_at)

        record = await self._read(read, is_new)
        if record is not None:
            self._remember(record)
        return record

    async def write(self, key: str, value: str, grant: GrantIdentity) -> bool:
        def write(transaction: WriteTransaction) -> bool:
            named = grant.name, grant.token, str(grant.grant_id), boot_id(), transaction.now
            if not transaction.execute(SQL["is_current"], *named).fetchone():
                return False
            transaction.execute(SQL["write_record"], key, grant.token, value, transaction.wall)
            transaction.durable = True
            return True

        return await self._write(write, patience=self._timeout)

    async def delete_records(self, prefix: str, older_than: float) -> int:
        def delete_records(transaction: WriteTransaction) -> int:
            since = transaction.wall - older_than
            return transaction.execute(SQL["forget_records"], since, prefix, prefix).rowcount

        return await self._write(delete_records, patience=self._timeout)

    async def close_idle(self, idle_for: float) -> bool:
        if self._ear is None and boottime() - self._used_at >= idle_for:
            await self._stop()
        return self._ear is None and not self._reader.is_running and not self._writer.is_running

    async def close(self) -> None:
        await self.unsubscribe()
        await self._stop()

    def sever(self) -> None:
        _end(self._reader, self._writer)
        if self._ear is not None:
            self._ear.close()

    @property
    def _listener(self) -> str | None:
        return self._ear.name if self._ear else None

    async def _answer(self, requests: Sequence[AcquireRequest]) -> list[AcquireAnswer]:
        listener = self._listener
        deaf = False

        def answer(transaction: WriteTransaction) -> list[AcquireAnswer]:
            nonlocal deaf
            deaf = listener is not None and not transaction.is_alive(listener)
            ear = None if deaf else listener
            return [decisions.answer(transaction, request, self._holder, ear) for request in requests]

        try:
            patience = min(_A_WHILE, self._timeout)
            answers = await self._write(answer, patience=patience)
        except errors.LockNotAvailable:
            return [AcquireAnswer("locked", 0, 0.0, _ASK_AGAIN, None)] * len(requests)
        if deaf and self._listener == listener:  # somebody has removed our socket
            await self.unsubscribe()
            self._on_end()
        return answers

    async def _release(self, grants: Sequence[GrantIdentity], *, if_waited: bool) -> list[ReleaseAnswer]:
        def release(transaction: WriteTransaction) -> list[ReleaseAnswer]:
            return [decisions.release(transaction, grant, self._listener, if_waited=if_waited) for grant in grants]

        try:
            return await self._write(release, patience=_BRIEFLY)
        except errors.LockNotAvailable:
            return [ReleaseAnswer("locked", None, False)] * len(grants)

    def _own(self, offers: Sequence[queue.Offer | None]) -> list[UUID]:
        return [offer.grant_id for offer in offers if offer is not None and offer.listener == self._listener]

    def _remember(self, record: StoredRecord) -> None:
        if len(self._on_disk) >= _REMEMBERED:
            self._on_disk.clear()
        self._on_disk[record.key] = record.token, record.written_at

    async def _read(self, work: Callable[[LogConnection], T], relied_on: Callable[[T], bool] = lambda _: False) -> T:
        self._used_at = boottime()
        return await self._reader.run(work, relied_on)

    async def _write(self, work: Callable[[WriteTransaction], T], *, patience: float) -> T:
        self._used_at = boottime()
        return await self._writer.run(work, patience=patience)

    async def _stop(self) -> None:
        """One after the other: of two who close a file at once SQLite takes neither for the last, who empties the log.
        A thread that stands at a turnstile which nobody opens is left there."""
        for worker in (self._reader, self._writer):
            if (thread := worker.stop()) is not None:
                await asyncio.to_thread(thread.join, _FAREWELL)


def _end(reader: Reader, writer: Writer) -> None:
    """Also for a store that nobody has closed, and nobody has any more."""
    reader.stop()
    writer.stop()
