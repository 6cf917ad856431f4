"""The thread that reads the file. With a write-ahead log, this thread never waits for a writer.

If a caller will rely on the result of a read, the thread first waits until the data that it read are on the disk.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from interlock.stores.sqlite.driver_errors import converted, translated
from interlock.stores.sqlite.file import LeaseFile
from interlock.stores.sqlite.forks import InsideSqlite
from interlock.stores.sqlite.jobs import ThreadJob, Worker, deliver
from interlock.stores.sqlite.log import LogConnection

T = TypeVar("T")

_RECOVERY = 1000
"""Milliseconds that a reader waits for a process that recovers the log after a crash. Nothing else makes it wait."""


class _ReadJob(ThreadJob[LogConnection, T]):
    """`relied_on` returns True for a result that a caller will rely on."""

    def __init__(self, work: Callable[[LogConnection], T], relied_on: Callable[[T], bool]) -> None:
        super().__init__(work)
        self.relied_on = relied_on


class Reader:
    def __init__(self, file: LeaseFile, run_timeout: float) -> None:
        self._file = file
        self._run_timeout = run_timeout
        self._connection: LogConnection | None = None
        self._inside = InsideSqlite()
        self._worker = Worker("interlock reader", self._serve, self._hang_up)

    @property
    def is_running(self) -> bool:
        return self._worker.is_running

    async def run(self, work: Callable[[LogConnection], T], relied_on: Callable[[T], bool]) -> T:
        """Returns the result of `work`. If `relied_on` is true for the result, its data are on the disk by then."""
        job = _ReadJob(work, relied_on)
        self._worker.submit(job)
        return await job.answer(self._run_timeout, self._run_timeout)

    def stop(self) -> Any:
        return self._worker.stop()

    def _serve(self, job: "_ReadJob[Any]") -> None:
        if not job.take():
            return
        try:
            with translated(self._file.path):
                result = self._read(job)
        except Exception as error:
            self._hang_up()
            deliver([(job, None, converted(error))])
        else:
            deliver([(job, result, None)])

    def _read(self, job: "_ReadJob[T]") -> T:
        connection = self._open()
        with self._inside:
            result = job.work(connection)
        if job.relied_on(result):
            self._file.sync(connection, self._inside)
        return result

    def _open(self) -> LogConnection:
        if self._connection is not None and self._file.identity() != self._connection.identity:
            self._hang_up()
        if self._connection is None:
            self._connection = self._file.connect(self._inside)
            with self._inside:
                self._connection.execute("PRAGMA query_only = ON")
                self._connection.execute(f"PRAGMA busy_timeout = {_RECOVERY}")
        return self._connection

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with self._inside:
                connection.close()
