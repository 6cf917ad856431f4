"""Opens the file with the leases. The first process that opens it creates the tables."""

import errno
import itertools
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from interlock import errors
from interlock.stores.sqlite.driver_errors import require_version, translated
from interlock.stores.sqlite.forks import InsideSqlite, detach_in_children, require_usable
from interlock.stores.sqlite.log import Log, LogConnection
from interlock.stores.sqlite.mounts import require_local
from interlock.stores.sqlite.writer_lock import WriterLock
from interlock.stores.statements import text

_VERSION = 1
_OPENING = 5.0
_TRIES = 5
_BUSY = 50
"""Milliseconds that SQLite itself waits for its write lock; then the writer checks if its jobs are still wanted."""


class LeaseFile:
    """The file with the leases. `side_directory` has the locks and the sockets.

    A path through a link leads to the same side directory, as it leads to the same SQLite log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._real = Path(os.path.realpath(path))
        self.side_directory = self._real.with_name(self._real.name + "-interlock")
        self._failures = itertools.count(1)
        self._failed = self._repaired = 0
        """The number of the last failure to sync the log, and of the failure after which the log was restarted."""
        self._doubt_marker = self.side_directory / "doubt"
        """This file exists after such a failure, for processes that open the log later."""

    def connect(self, inside: InsideSqlite) -> LogConnection:
        """Open a connection, and create missing tables. Call this in the thread that will use it, not yet `inside`.

        Only SQLite may open the file: a process that closes another descriptor of the file loses SQLite's locks on it.
        """
        require_usable()
        require_version()
        self.require_place()
        with translated(self.path):
            with inside:
                connection = self._opened()
            try:
                self._prepare(connection, inside)
            except BaseException:
                with inside:
                    connection.close()
                raise
        return connection

    def sync(self, connection: LogConnection, inside: InsideSqlite) -> None:
        """Put earlier commits on the disk, as COMMIT does with `synchronous=FULL`, but without the file's lock.

        The calling thread must not be `inside` or hold the writer lock: after a failed sync, this method takes it.
        """
        try:
            if self.is_in_doubt:
                self._restart_log(connection, inside)
            else:
                connection.log.sync()
        except (OSError, sqlite3.Error) as error:
            if isinstance(error, FileNotFoundError):  # that log was removed
                self._clear_doubt(self._failed)
            else:
                self._failed = next(self._failures)
                with suppress(OSError):  # the marker is on the same disk
                    self._doubt_marker.touch()
            why = error.strerror if isinstance(error, OSError) else error
            raise errors.ConnectionLost(
                f"{self.path} could not be synced to its disk ({why}): check the disk."
            ) from error

    @property
    def is_in_doubt(self) -> bool:
        """True if a part of the log may be missing on the disk, even if a sync succeeds."""
        return self._failed != self._repaired or self._doubt_marker.exists()

    def identity(self) -> tuple[int, int]:
        """Returns device and inode of the file that is at the path now. It may not be the file that was opened."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return 0, 0
        return found.st_dev, found.st_ino

    def require_place(self) -> None:
        directory = self._real.parent
        if not directory.is_dir():
            raise errors.DatabaseUnreachable(
                f"The directory {directory} does not exist: create this directory, or name another file."
            )
        if self.path.is_dir():
            raise errors.ConfigurationError(f"{self.path} is a directory: name a file.")
        require_local(self.path)
        wanting = next(
            (path for path in (self.path, directory) if path.exists() and not os.access(path, os.W_OK)), None
        )
        if wanting is not None:
            raise errors.PermissionMissing(
                f"This process may not write to {wanting}: give its user the permission to write."
            )

    def _make_directory(self) -> None:
        """Create the side directory, for every user that may write to the file."""
        readable = self.path.stat().st_mode & 0o666
        try:
            self.side_directory.mkdir(exist_ok=True)
            if self.side_directory.stat().st_uid == os.geteuid():
                self.side_directory.chmod(readable | (readable & 0o444) >> 2)
        except OSError as error:
            raise errors.PermissionMissing(
                f"The directory {self.side_directory} cannot be created ({error.strerror}): "
                "let this process's user create it."
            ) from error

    def _restart_log(self, connection: LogConnection, inside: InsideSqlite) -> None:
        failed = self._failed
        with self._exclusive_writer(), inside:
            (may_only_read,) = connection.execute("PRAGMA query_only").fetchone()
            try:
                connection.execute("PRAGMA query_only = OFF")
                _empty_log(connection)
            finally:
                connection.execute(f"PRAGMA query_only = {may_only_read}")
        self._clear_doubt(failed)

    def _clear_doubt(self, failed: int) -> None:
        self._repaired = failed
        with suppress(OSError):  # if that fails, the next sync restarts the log again
            self._doubt_marker.unlink(missing_ok=True)

    def _opened(self) -> LogConnection:
        """Returns a connection to the file that is at the path both before and after the opening: it was not replaced.

        A file that SQLite has just created is opened once more.
        """
        for _ in range(_TRIES):
            identity = self.identity()
            connection = sqlite3.connect(
                self.path, timeout=_OPENING, isolation_level=None, check_same_thread=False, factory=LogConnection
            )
            detach_in_children(connection)
            if self.identity() == identity:
                connection.identity = identity
                return connection
            connection.close()
        raise errors.ConnectionLost(
            f"The file {self.path} was replaced whenever it was opened: stop the program that replaces it."
        )

    def _prepare(self, connection: LogConnection, inside: InsideSqlite) -> None:
        self._make_directory()
        with inside:
            is_ready = _is_ready(connection, self.path)
        if not is_ready:
            self._make_ready(connection, inside)
        with inside:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY}")
        connection.log = Log(self.path)

    def _make_ready(self, connection: sqlite3.Connection, inside: InsideSqlite) -> None:
        with self._exclusive_writer(), inside:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise errors.ConfigurationError(
                    f"{self.path} cannot have a write-ahead log: put the file on another disk."
                )
            try:
                connection.execute("BEGIN IMMEDIATE")
                if not has_tables(connection, self.path):
                    for statement in _statements(text("interlock.stores.sqlite", "schema.sql")):
                        connection.execute(statement)
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()  # while inside: a forked child would never end the transaction
                raise

    @contextmanager
    def _exclusive_writer(self) -> Iterator[None]:
        """Hold the writer lock. The calling thread must not be inside SQLite.

        A fork waits for all threads that are inside SQLite, and the holder of the writer lock may be waiting for that
        fork: a thread that is inside and waits for the writer lock would complete a deadlock.
        """
        writer_lock = WriterLock(self.side_directory)
        try:
            with writer_lock:
                yield
        finally:
            writer_lock.close()


def _empty_log(connection: LogConnection) -> None:
    """Move the log's content into the database, but only after the disk has taken the whole log.

    While the disk fails, the database stays unchanged.
    """
    connection.execute("BEGIN IMMEDIATE")  # so that no other process writes to it
    try:
        connection.log.write_again()
    finally:
        connection.execute("ROLLBACK")
    (is_busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        raise OSError(errno.EBUSY, "a transaction that reads the file keeps the log from being emptied")
    connection.log.sync()


def _is_ready(connection: sqlite3.Connection, path: Path) -> bool:
    return connection.execute("PRAGMA journal_mode").fetchone() == ("wal",) and has_tables(connection, path)


def has_tables(connection: sqlite3.Connection, path: Path) -> bool:
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'interlock_file'").fetchone():
        return False
    (version,) = connection.execute("SELECT version FROM interlock_file").fetchone()
    if version > _VERSION:
        raise errors.SchemaTooNew(
            f"A newer release of Interlock has changed the tables in {path} to version {version}, and this release "
            f"knows version {_VERSION}: upgrade Interlock."
        )
    return True


def _statements(script: str) -> list[str]:
    found, rest = [], ""
    for line in script.splitlines(keepends=True):
        rest += line
        if sqlite3.complete_statement(rest):
            found.append(rest)
            rest = ""
    return found
