"""What can be seen of a SQLite file before anyone trusts it with leases. Nothing is made that is not there."""

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
    """What is wrong with SQLite itself is `library`, with where the file is `place`, with the directory beside it
    `beside`, with what is in the file `contents`. `journal` is how it keeps its log; None if it was not opened."""

    version: str
    library: errors.InterlockError | None
    file_system: str
    is_remote: bool
    exists: bool
    place: errors.InterlockError | None
    beside: errors.InterlockError | None
    journal: str | None
    has_leases: bool | None
    contents: errors.InterlockError | None


def look(path: Path) -> FileExamination:
    file = LeaseFile(path)
    kind = file_system(path)
    place = _raised(file.require_place)
    seen = _contents(path) if place is None and path.is_file() else (None, None, None)
    return FileExamination(
        sqlite3.sqlite_version,
        _raised(require_version),
        kind,
        is_remote(kind),
        path.is_file(),
        place,
        _beside(file.beside),
        *seen,
    )


def _contents(path: Path) -> tuple[str | None, bool | None, errors.InterlockError | None]:
    try:
        with translated(path), closing(sqlite3.connect(path, timeout=1.0, isolation_level=None)) as connection:
            connection.execute("PRAGMA query_only = ON")
            (journal,) = connection.execute("PRAGMA journal_mode").fetchone()
            return journal, has_tables(connection, path), None
    except errors.InterlockError as error:
        return None, None, error


def _beside(directory: Path) -> errors.InterlockError | None:
    """Where processes take their turns and ring at each other; whoever comes first makes it."""
    if directory.exists() and not os.access(directory, os.W_OK | os.X_OK):
        return errors.PermissionMissing(f"This process may not write in {directory}: let its user do that.")
    return None


def _raised(check: Callable[[], object]) -> errors.InterlockError | None:
    try:
        check()
    except errors.InterlockError as error:
        return error
    return None
