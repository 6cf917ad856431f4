"""Converts the errors of SQLite, and of the system below it, into Interlock's."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interlock import errors

_OLDEST = (3, 35, 0)


@contextmanager
def translated(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise _meaning(file, error) from error


def converted(error: Exception) -> Exception:
    """Returns Interlock's error for an error that Python or the system raised around SQLite; other errors unchanged."""
    if isinstance(error, UnicodeEncodeError | OverflowError):
        return errors.StatementFailed(f"SQLite cannot store a value ({error}): change the value.")
    if isinstance(error, OSError):
        return errors.DatabaseUnreachable(
            f"The directory beside the file with the leases cannot be used ({error}): correct the error."
        )
    return error


def is_busy(error: sqlite3.Error) -> bool:
    """True if another transaction has locked the file, so that a retry may help."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def require_version() -> None:
    if sqlite3.sqlite_version_info < _OLDEST:
        raise errors.UnsupportedServer(
            f"Python has SQLite {sqlite3.sqlite_version}, and leases need {'.'.join(map(str, _OLDEST))} or newer: "
            "use a newer Python."
        )


def _code(error: sqlite3.Error) -> int:
    """Returns the primary error code, without SQLite's extended part."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _meaning(file: Path, error: sqlite3.Error) -> errors.InterlockError:
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return errors.LockNotAvailable(f"{file} stayed locked by another transaction: try again.")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return errors.PermissionMissing(
                f"This process may not write to {file}: give its user the permission to write to the file and to its "
                "directory."
            )
        case sqlite3.SQLITE_CANTOPEN:
            return errors.DatabaseUnreachable(
                f"{file} cannot be opened: check that its directory exists and can be written to."
            )
        case sqlite3.SQLITE_NOTADB:
            return errors.ConfigurationError(f"{file} is not a SQLite database: name another file.")
        case sqlite3.SQLITE_CORRUPT:
            return errors.StatementFailed(f"{file} is damaged ({error}): restore the file from a backup.")
        case sqlite3.SQLITE_FULL:
            return errors.ConnectionLost(f"The disk of {file} is full: make room.")
        case sqlite3.SQLITE_IOERR:
            return errors.ConnectionLost(f"{file} could not be read or written ({error}): check the disk.")
    return errors.StatementFailed(f"SQLite refused a statement on {file}: {error}.")
