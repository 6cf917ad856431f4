"""The file with the leases: opened, and made ready by whoever comes first."""

import os
import sqlite3
import sys
from pathlib import Path

from interlock import errors
from interlock.stores.sqlite.faults import require_version, translated
from interlock.stores.sqlite.mounts import require_local
from interlock.stores.sqlite.turnstile import Turnstile
from interlock.stores.statements import text

_VERSION = 1
_sync = os.fsync if sys.platform == "darwin" else os.fdatasync
_OPENING = 5.0
_BUSY = 50
"""Milliseconds that SQLite itself waits for its write lock. We look in between whether anybody still wants it."""


class LeaseFile:
    """`beside` is the directory for what cannot be in the file: the turnstile and the sockets."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.beside = path.with_name(path.name + "-interlock")
        self._log = ""

    def connect(self) -> sqlite3.Connection:
        """In the thread that will use it. The tables are there afterwards. Nothing but SQLite ever opens the
        file: a process that closes another descriptor of it loses SQLite's locks on it."""
        require_version()
        self.require_place()
        with translated(self.path):
            connection = sqlite3.connect(self.path, timeout=_OPENING, isolation_level=None, check_same_thread=False)
            try:
                self._log = os.path.realpath(self.path) + "-wal"  # where SQLite puts it, of a file behind a link too
                self._make_directory()
                if not _is_ready(connection, self.path):
                    self._make_ready(connection)
                connection.execute(f"PRAGMA busy_timeout = {_BUSY}")
            except BaseException:
                connection.close()
                raise
        return connection

    def sync(self) -> None:
        """What was committed before is on the disk afterwards: as if COMMIT had waited for it (`synchronous=FULL`), but
        without the file's lock. The log stays the same file as long as somebody is connected, and SQLite locks nothing
        in it; a checkpoint that empties it has put everything on the disk before."""
        try:
            descriptor = os.open(self._log, os.O_RDWR | os.O_CLOEXEC)
            try:
                _sync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise errors.ConnectionLost(
                f"{self.path} could not be put on its disk ({error.strerror}): look at it."
            ) from error

    def identity(self) -> tuple[int, int]:
        """Of what stands at the path now, which may be another file than the one that was opened."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return 0, 0
        return found.st_dev, found.st_ino

    def require_place(self) -> None:
        directory = self.path.parent
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

    def _make_ready(self, connection: sqlite3.Connection) -> None:
        turnstile = Turnstile(self.beside)
        try:
            with turnstile:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
                if mode != "wal":
                    raise errors.ConfigurationError(
                        f"{self.path} cannot have a write-ahead log: put it on another disk."
                    )
                connection.execute("BEGIN IMMEDIATE")
                if not has_tables(connection, self.path):
                    for statement in _statements(text("interlock.stores.sqlite", "schema.sql")):
                        connection.execute(statement)
                connection.execute("COMMIT")
        finally:
            turnstile.close()


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
