"""Examines a SQLite file before it is trusted with leases. Nothing is created."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from interlock import errors
from interlock.stores.sqlite.driver_errors import require_version, translated
from interlock.stores.sqlite.file import LeaseFile, has_tables
from interlock.stores.sqlite.mounts import file_system, is_remote


class FileExamination(NamedTuple):
    """The result of an examination. `journal` is the file's journal mode; None if the file was not opened.

    The fields for errors: `library` for SQLite itself, `place` for the file's location, `side_directory` for the
    directory beside the file, `contents` for the file's content.
    """

    version: str
    library: errors.InterlockError | None
    file_system: str
    is_remote: bool
    exists: bool
    place: errors.InterlockError | None
    side_directory: errors.InterlockError | None
    journal: str | None
    has_leases: bool | None
    contents: errors.InterlockError | None


def examine(path: Path) -> FileExamination:
    file = LeaseFile(path)
    kind = file_system(path)
    place = _raised(file.require_place)
    contents = _contents(path) if place is None and path.is_file() else (None, None, None)
    return FileExamination(
        sqlite3.sqlite_version,
        _raised(require_version),
        kind,
        is_remote(kind),
        path.is_file(),
        place,
        _side_directory_error(file.side_directory),
        *contents,
    )


def _contents(path: Path) -> tuple[str | None, bool | None, errors.InterlockError | None]:
    try:
        with translated(path), closing(sqlite3.connect(path, timeout=1.0, isolation_level=None)) as connection:
            connection.execute("PRAGMA query_only = ON")
            (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
            return journal, has_tables(connection, path), None
    except errors.InterlockError as error:
        return None, None, error


def _side_directory_error(directory: Path) -> errors.InterlockError | None:
    """Returns the error of the directory with the locks and sockets, if any.

    A missing directory is no error: the first process creates it.
    """
    if directory.exists() and not os.access(directory, os.W_OK | os.X_OK):
        return errors.PermissionMissing(
            f"This process may not write to {directory}: give its user the permission to write."
        )
    return None


def _raised(check: Callable[[], object]) -> errors.InterlockError | None:
    try:
        check()
    except errors.InterlockError as error:
        return error
    return None
