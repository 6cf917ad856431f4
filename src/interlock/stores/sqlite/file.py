"""The file with the leases: opened, and made ready by whoever comes first."""

import errno
import itertools
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from interlock import errors
from interlock.stores.sqlite.driver_errors import require_version, translated
from interlock.stores.sqlite.forks import InsideSqlite, left_alone_in_children, require_fit
from interlock.stores.sqlite.log import Log, LogConnection
from interlock.stores.sqlite.mounts import require_local
from interlock.stores.sqlite.writer_lock import WriterLock
from interlock.stores.statements import text

_VERSION = 1
_OPENING = 5.0
_TRIES = 5
_BUSY = 50
"""Milliseconds that SQLite itself waits for its write lock. We look in between whether anybody still wants it."""


class LeaseFile:
    """`beside` is the directory for what cannot be in the file: the turnstile and the sockets. Like SQLite's log it is
    the same for whoever comes by a link."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._real = Path(os.path.realpath(path))
        self.beside = self._real.with_name(self._real.name + "-interlock")
        self._failures = itertools.count(1)
        self._failed = self._mended = 0
        """Which failure to put the log on the disk was the last, and after which it was begun anew."""
        self._doubt = self.beside / "doubt"
        """Is there after such a failure, for processes that come later and are not told of it."""

    def connect(self, inside: InsideSqlite) -> LogConnection:
        """In the thread that will use it, and is not `inside` yet. The tables are there afterwards. Nothing but SQLite
        ever opens the file: a process that closes another descriptor of it loses SQLite's locks on it."""
        require_fit()
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
        """What was committed before is on the disk afterwards: as if COMMIT had waited for it (`synchronous=FULL`), but
        without the file's lock. In a thread that is neither `inside` nor in the turnstile: after a failure it has to go
        through that."""
        try:
            if self.is_in_doubt:
                self._begin_log_anew(connection, inside)
            else:
                connection.log.sync()
        except (OSError, sqlite3.Error) as error:
            if isinstance(error, FileNotFoundError):  # that log is nobody's any more
                self._end_doubt(self._failed)
            else:
                self._failed = next(self._failures)
                with suppress(OSError):  # on that very disk
                    self._doubt.touch()
            why = error.strerror if isinstance(error, OSError) else error
            raise errors.ConnectionLost(f"{self.path} could not be put on its disk ({why}): look at it.") from error

    @property
    def is_in_doubt(self) -> bool:
        """Whether the disk may lack something of the log, whatever it says."""
        return self._failed != self._mended or self._doubt.exists()

    def identity(self) -> tuple[int, int]:
        """Of what stands at the path now, which may be another file than the one that was opened."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return 0, 0
        return found.st_dev, found.st_ino

    def require_place(self) -> None:
        directory = self._real.parent
        if not directory.is_dir():
            raise errors.DatabaseUnreachable(f"The directory {directory} is not there: make it, or name another file.")
        if self.path.is_dir():
            raise errors.ConfigurationError(f"{self.path} is a directory: name a file.")
        require_local(self.path)
        wanting = next(
            (path for path in (self.path, directory) if path.exists() and not os.access(path, os.W_OK)), None
        )
        if wanting is not None:
            raise errors.PermissionMissing(f"This process may not write {wanting}: let its user do that.")

    def _make_directory(self) -> None:
        """Who may write the file may use what is beside it."""
        readable = self.path.stat().st_mode & 0o666
        try:
            self.beside.mkdir(exist_ok=True)
            if self.beside.stat().st_uid == os.geteuid():
                self.beside.chmod(readable | (readable & 0o444) >> 2)
        except OSError as error:
            raise errors.PermissionMissing(f"The directory {self.beside} cannot be made: {error.strerror}.") from error

    def _begin_log_anew(self, connection: LogConnection, inside: InsideSqlite) -> None:
        failed = self._failed
        with self._turn_of_its_own(), inside:
            (may_only_read,) = connection.execute("PRAGMA query_only").fetchone()
            try:
                connection.execute("PRAGMA query_only = OFF")
                _empty_log(connection)
            finally:
                connection.execute(f"PRAGMA query_only = {may_only_read}")
        self._end_doubt(failed)

    def _end_doubt(self, failed: int) -> None:
        self._mended = failed
        with suppress(OSError):  # then the next one begins the log anew once more
            self._doubt.unlink(missing_ok=True)

    def _opened(self) -> LogConnection:
        """Of the file that stood there before and still does: then it is this one, and not another that was put in its
        place meanwhile. One that SQLite has only just made is opened once more."""
        for _ in range(_TRIES):
            identity = self.identity()
            connection = sqlite3.connect(
                self.path, timeout=_OPENING, isolation_level=None, check_same_thread=False, factory=LogConnection
            )
            left_alone_in_children(connection)
            if self.identity() == identity:
                connection.identity = identity
                return connection
            connection.close()
        raise errors.ConnectionLost(f"Another file is put at {self.path} whenever it is opened: leave one there.")

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
        with self._turn_of_its_own(), inside:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise errors.ConfigurationError(f"{self.path} cannot have a write-ahead log: put it on another disk.")
            try:
                connection.execute("BEGIN IMMEDIATE")
                if not has_tables(connection, self.path):
                    for statement in _statements(text("interlock.stores.sqlite", "schema.sql")):
                        connection.execute(statement)
                connection.execute("COMMIT")
            except BaseException:
                connection.rollback()  # inside: a forked child would take it for one of its own, which nobody ends
                raise

    @contextmanager
    def _turn_of_its_own(self) -> Iterator[None]:
        """At the turnstile, for whoever is not inside SQLite. A fork waits for all who are, and whoever has the
        turnstile may just be waiting for that fork: with somebody who stands here inside, they would wait in a circle.
        """
        turnstile = WriterLock(self.beside)
        try:
            with turnstile:
                yield
        finally:
            turnstile.close()


def _empty_log(connection: LogConnection) -> None:
    """What the log should hold is put into the database. But not before the disk has taken all of it: as long as it
    does not, the database is better left as it is."""
    connection.execute("BEGIN IMMEDIATE")  # so that nobody else writes to it
    try:
        connection.log.write_again()
    finally:
        connection.execute("ROLLBACK")
    (is_busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        raise OSError(errno.EBUSY, "a transaction reads it, and so keeps its log from being emptied")
    connection.log.sync()


def _is_ready(connection: sqlite3.Connection, path: Path) -> bool:
    return connection.execute("PRAGMA journal_mode").fetchone() == ("wal",) and has_tables(connection, path)


def has_tables(connection: sqlite3.Connection, path: Path) -> bool:
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'interlock_file'").fetchone():
        return False
    (version,) = connection.execute("SELECT version FROM interlock_file").fetchone()
    if version > _VERSION:
        raise errors.SchemaTooNew(
            f"A newer release of Interlock has changed the tables in {path} to version {version}, and this one knows "
            f"{_VERSION}: upgrade it."
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
