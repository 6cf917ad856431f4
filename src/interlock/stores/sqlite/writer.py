"""The one thread of an event loop that changes the file.

Who may do what. SQLite lets one connection write at a time, so a transaction that has begun sees everything as it is,
and whatever it decides holds. Whoever comes while we wait for our turn shares our transaction, and with it the one wait
for the disk. Only what must outlive the machine's crash waits for the disk: that a token was given out, and records.
That a lease was renewed, released or waited for does not matter after one: nobody is left who holds or waits.

Where it waits. COMMIT does not wait for the disk, and so nobody waits for it at the turnstile: whoever has to be on the
disk lets the next one in and then syncs the log, at the same time as others. What others have seen and built upon until
then stands before theirs in the log, so theirs is never on the disk without it. (Once in some hundreds of times COMMIT
itself empties the log first, as SQLite does, and then it does wait.)

What is left behind. Killed before COMMIT: nothing. Killed after it: the change, and whoever it concerned was rung at
before it. A bell that rings for a transaction which is then not committed sends somebody to look in vain.
"""

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from interlock import errors
from interlock.stores.sqlite.driver_errors import is_busy, known, translated
from interlock.stores.sqlite.file import LeaseFile
from interlock.stores.sqlite.forks import InsideSqlite
from interlock.stores.sqlite.jobs import Settled, ThreadJob, Worker, deliver
from interlock.stores.sqlite.log import LogConnection
from interlock.stores.sqlite.transaction import WriteTransaction
from interlock.stores.sqlite.wakeups import WakeUps
from interlock.stores.sqlite.writer_lock import WriterLock

T = TypeVar("T")


Work = ThreadJob[WriteTransaction, Any]


class Writer:
    def __init__(self, file: LeaseFile, longest: float) -> None:
        self._file = file
        self._longest = longest
        self._bells = WakeUps(file.beside)
        self._turnstile = WriterLock(file.beside)
        self._connection: LogConnection | None = None
        self._inside = InsideSqlite()
        self._worker = Worker("interlock writer", self._serve, self._hang_up)

    @property
    def is_running(self) -> bool:
        return self._worker.is_running

    async def run(self, work: Callable[[WriteTransaction], T], *, patience: float) -> T:
        """The result of `work`, when its transaction is committed."""
        job: ThreadJob[WriteTransaction, T] = ThreadJob(work)
        self._worker.submit(job)
        return await job.answer(patience, self._longest)

    def stop(self) -> Any:
        return self._worker.stop()

    def _serve(self, first: Work) -> None:
        jobs = [first]
        try:
            with translated(self._file.path):
                self._open()
                with self._turnstile:
                    jobs += self._worker.waiting()
                    settled, unheard = self._write(jobs)
        except Exception as error:
            self._hang_up()
            deliver([(job, None, known(error)) for job in jobs])
        else:
            # Not before we have left the turnstile: who is answered may be stopped at once.
            deliver([each for each in settled if not each[0].is_durable])
            self._answer_from_disk([each for each in settled if each[0].is_durable])
            self._bells.ring_again(unheard)

    def _answer_from_disk(self, settled: list[Settled]) -> None:
        """If it fails, they are committed all the same, and whoever asks again is answered when it succeeds. The
        connection stays: who closes a file last writes to its database, and that had better not be left to a disk that
        fails."""
        if not settled:
            return
        try:
            self._file.sync(self._open(), self._inside)
        except Exception as error:
            if not self._file.is_in_doubt:
                self._hang_up()
            deliver([(job, None, known(error)) for job, _, _ in settled])
        else:
            deliver(settled)

    def _write(self, jobs: list[Work]) -> tuple[list[Settled], dict[str, list[UUID]]]:
        """One transaction for all; if one job fails, another for the rest of them. And whoever could not be told."""
        connection = self._open()
        while wanted := [job for job in jobs if job.is_wanted]:
            with self._inside:  # to the end of it: a forked child would take it for one of its own, which nobody ends
                try:
                    results, unheard = self._transact(connection, wanted)
                except BaseException:
                    self._connection = None
                    connection.close()
                    raise
            if not results:
                jobs += self._worker.waiting()
                continue
            *_, (last, _, error) = results
            if error is None:
                return results, unheard
            jobs.remove(last)
            deliver([results[-1]])
        return [], {}

    def _transact(self, connection: LogConnection, wanted: list[Work]) -> tuple[list[Settled], dict[str, list[UUID]]]:
        """Those who still want it then, in a transaction that has ended afterwards; nobody, and there was none."""
        results: list[Settled] = []
        if not self._has_begun(connection):
            return results, {}
        if taken := [job for job in wanted if job.take()]:
            transaction = WriteTransaction(connection, self._bells)
            results = _done(taken, transaction)
            if results[-1][2] is None:
                unheard = {name: ids for name, ids in transaction.rings.items() if not self._bells.ring(name, ids)}
                connection.execute("COMMIT")
                return results, unheard
        connection.execute("ROLLBACK")
        return results, {}

    def _has_begun(self, connection: LogConnection) -> bool:
        """False: a transaction of the user's own, which knows no turnstile, has the file."""
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if is_busy(error):
                return False
            raise
        self._require_same_file(connection)
        return True

    def _require_same_file(self, connection: LogConnection) -> None:
        if self._file.identity() != connection.identity:
            raise errors.ConnectionLost(f"Another file stands at {self._file.path} than the one that was opened.")

    def _open(self) -> LogConnection:
        if self._connection is None:
            self._connection = self._file.connect(self._inside)
            with self._inside:
                self._connection.execute("PRAGMA synchronous = NORMAL")  # what has to be on the disk is synced by us
        return self._connection

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with self._inside:
                connection.close()
        self._turnstile.close()


def _done(jobs: list[Work], transaction: WriteTransaction) -> list[Settled]:
    """Up to the first that fails, if one does."""
    results: list[Settled] = []
    for job in jobs:
        try:
            transaction.durable = False
            results.append((job, job.work(transaction), None))
            job.is_durable = transaction.durable
        except (errors.InterlockError, UnicodeEncodeError, OverflowError) as error:
            return [*results, (job, None, known(error))]
    return results
