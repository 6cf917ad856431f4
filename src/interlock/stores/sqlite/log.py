"""The write-ahead log, synced to the disk by a descriptor of Interlock's own.

Failures. The system drops data that it could not write: it reports that once to each open descriptor, to one that is
opened later perhaps never, and the next sync succeeds, with a hole in the log on the disk at which the log ends after
a crash. So the descriptor is opened before the commits that it has to sync; and after a failure no sync counts until
the log was emptied into the database.
"""

import os
import sqlite3
import sys
from pathlib import Path

_PIECE = 1 << 20
_sync = os.fsync if sys.platform == "darwin" else os.fdatasync


class Log:
    """The log of a database that SQLite has open, so the log's file stays the same.

    SQLite locks nothing in the log: closing another descriptor of it does no harm, unlike one of the database.
    """

    def __init__(self, database: Path) -> None:
        self._path = Path(os.path.realpath(database) + "-wal")  # SQLite puts it there, also for a file behind a link
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)

    def sync(self) -> None:
        """Put earlier commits on the disk. A checkpoint that empties the log has put them there already."""
        if not os.path.samestat(self._path.stat(), os.fstat(self._descriptor)):
            raise FileNotFoundError(0, "its log was removed")
        _sync(self._descriptor)

    def write_again(self) -> None:
        """Write the same bytes again, while no other process writes, to find out if the disk takes them now.

        Bytes that failed before may be readable and still be missing after a crash, if the file system did not record
        them as written.
        """
        for start in range(0, os.fstat(self._descriptor).st_size, _PIECE):
            os.pwrite(self._descriptor, os.pread(self._descriptor, _PIECE, start), start)
        self.sync()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class LogConnection(sqlite3.Connection):
    """A connection with the log of its file. `log` is set once the file is ready.

    `identity` is that of the open file, which may no longer be the file at its path.
    """

    log: Log
    identity: tuple[int, int]

    def detach(self) -> "LogConnection":
        return self

    def close(self) -> None:
        super().close()
        if hasattr(self, "log"):
            self.log.close()
