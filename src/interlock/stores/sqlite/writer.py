"""The one thread of an event loop that changes the file.

Transactions. SQLite lets one connection write at a time, so a transaction that has begun sees the current state, and
its decisions hold. Jobs that arrive while the thread waits for the writer lock share one transaction, and one wait for
the disk. Only changes that must survive a crash of the machine wait for the disk: grants, because of their tokens,
and records. Renewals, releases and queue entries do not matter after a crash: no holder and no waiter survives it.

Waiting for the disk. COMMIT does not wait for the disk, so a process never waits for the disk while it holds the writer
lock: it releases the lock, and then syncs the log at the same time as other processes. A transaction that builds on an
earlier transaction comes later in the log, so it is never on the disk without the earlier one. (Once in some hundred
times SQLite empties the log in a COMMIT, and then the COMMIT does wait for the disk.)

Crashes. A process that is killed before COMMIT leaves no change. A process that is killed after COMMIT leaves the
change, and had notified the waiters before COMMIT. If a transaction is not committed, a notified waiter checks in vain.
"""

import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

from interlock import errors
from interlock.stores.sqlite.driver_errors import converted, is_busy, translated
from interlock.stores.sqlite.file import LeaseFile
from interlock.stores.sqlite.forks import InsideSqlite
from interlock.stores.sqlite.jobs import Settled, ThreadJob, Worker, deliver
from interlock.stores.sqlite.log import LogConnection
from interlock.stores.sqlite.transaction import WriteTransaction
from interlock.stores.sqlite.wakeups import WakeUpSender
from interlock.stores.sqlite.writer_lock import WriterLock

T = TypeVar("T")


Work = ThreadJob[WriteTransaction, Any]


class Writer:
    def __init__(self, file: LeaseFile, run_timeout: float) -> None:
        self._file = file
        self._run_timeout = run_timeout
        self._wake_up_sender = WakeUpSender(file.side_directory)
        self._writer_lock = WriterLock(file.side_directory)
        self._connection: LogConnection | None = None
        self._inside = InsideSqlite()
        self._worker = Worker("interlock writer", self._serve, self._hang_up)

    @property
    def is_running(self) -> bool:
        return self._worker.is_running

    async def run(self, work: Callable[[WriteTransaction], T], *, lock_timeout: float) -> T:
        """Returns the result of `work`, after its transaction is committed."""
        job: ThreadJob[WriteTransaction, T] = ThreadJob(work)
        self._worker.submit(job)
        return await job.answer(lock_timeout, self._run_timeout)

    def stop(self) -> Any:
        return self._worker.stop()

    def _serve(self, first: Work) -> None:
        jobs = [first]
        try:
            with translated(self._file.path):
                self._open()
                with self._writer_lock:
                    jobs += self._worker.waiting()
                    settled, undelivered = self._write(jobs)
        except Exception as error:
            self._hang_up()
            deliver([(job, None, converted(error)) for job in jobs])
        else:
            # After the writer lock was released: the process may be stopped as soon as an answer is delivered.
            deliver([each for each in settled if not each[0].is_durable])
            self._answer_from_disk([each for each in settled if each[0].is_durable])
            self._wake_up_sender.wake_later(undelivered)

    def _answer_from_disk(self, settled: list[Settled]) -> None:
        """Sync the log, and deliver the answers.

        If the sync fails, the changes are committed all the same: a repeated request is answered once a sync succeeds.
        The connection stays open, because closing a file's last connection writes to the database, which is not safe on
        a failing disk.
        """
        if not settled:
            return
        try:
            self._file.sync(self._open(), self._inside)
        except Exception as error:
            if not self._file.is_in_doubt:
                self._hang_up()
            deliver([(job, None, converted(error)) for job, _, _ in settled])
        else:
            deliver(settled)

    def _write(self, jobs: list[Work]) -> tuple[list[Settled], dict[str, list[UUID]]]:
        """Run all jobs in one transaction. If one job fails, run the other jobs in another transaction.

        Returns the results, and the notifications that were not delivered.
        """
        connection = self._open()
        while wanted := [job for job in jobs if job.is_wanted]:
            with self._inside:  # until it ends: a forked child would take the transaction for its own, and never end it
                try:
                    results, undelivered = self._transact(connection, wanted)
                except BaseException:
                    self._connection = None
                    connection.close()
                    raise
            if not results:
                jobs += self._worker.waiting()
                continue
            *_, (last, _, error) = results
            if error is None:
                return results, undelivered
            jobs.remove(last)
            deliver([results[-1]])
        return [], {}

    def _transact(self, connection: LogConnection, wanted: list[Work]) -> tuple[list[Settled], dict[str, list[UUID]]]:
        """Run the jobs that are still wanted in a transaction, and end it. Returns no results if none could begin."""
        results: list[Settled] = []
        if not self._has_begun(connection):
            return results, {}
        if taken := [job for job in wanted if job.take()]:
            transaction = WriteTransaction(connection, self._wake_up_sender)
            results = _done(taken, transaction)
            if results[-1][2] is None:
                wake = self._wake_up_sender.wake
                undelivered = {name: ids for name, ids in transaction.wake_ups.items() if not wake(name, ids)}
                connection.execute("COMMIT")
                return results, undelivered
        connection.execute("ROLLBACK")
        return results, {}

    def _has_begun(self, connection: LogConnection) -> bool:
        """Begin the transaction. Returns False if a user's own transaction, without the writer lock, has the file."""
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
            raise errors.ConnectionLost(
                f"The file {self._file.path} was replaced by another file since it was opened: try again."
            )

    def _open(self) -> LogConnection:
        if self._connection is None:
            self._connection = self._file.connect(self._inside)
            with self._inside:
                self._connection.execute("PRAGMA synchronous = NORMAL")  # `sync` puts on the disk what has to be there
        return self._connection

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with self._inside:
                connection.close()
        self._writer_lock.close()


def _done(jobs: list[Work], transaction: WriteTransaction) -> list[Settled]:
    """Run the jobs. Returns their results, up to and including the first job that fails, if any."""
    results: list[Settled] = []
    for job in jobs:
        try:
            transaction.durable = False
            results.append((job, job.work(transaction), None))
            job.is_durable = transaction.durable
        except (errors.InterlockError, UnicodeEncodeError, OverflowError) as error:
            return [*results, (job, None, converted(error))]
    return results
