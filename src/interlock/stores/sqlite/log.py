"""The write-ahead log, synced to the disk by a descriptor of Interlock's own.

Failures. The system drops data that it could not write. It reports the failure once to each open descriptor, and
perhaps never to a descriptor that is opened later. The next sync succeeds, but the log on the disk has a hole, and
after a crash the log ends at this hole. So the descriptor is opened before the commits that it has to sync; and after a
failure, no sync counts until the log was emptied into the database.
"""

import os
import sqlite3
import sys
from pathlib import Path

_PIECE = 1 << 20
_sync = os.fsync if sys.platform == "darwin" else os.fdatasync


class Log:
    """The log of a database. SQLite has to have the database open, so that the log's file stays the same.

    SQLite locks nothing in the log, so it is safe to close another descriptor of the log, unlike one of the database.
    """

    def __init__(self, database: Path) -> None:
        self._path = Path(os.path.realpath(database) + "-wal")  # SQLite puts it there, also for a file behind a link
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)

    def sync(self) -> None:
        """Put earlier commits on the disk. A checkpoint that has emptied the log has put its commits there already."""
        if not os.path.samestat(self._path.stat(), os.fstat(self._descriptor)):
            raise FileNotFoundError(0, "its log was removed")
        _sync(self._descriptor)

    def write_again(self) -> None:
        """Write the log's bytes again, to find out if the disk takes them now. No other process may write meanwhile.

        Bytes whose write failed may be readable now and missing after a crash, if the file system did not record them
        as written.
        """
        for start in range(0, os.fstat(self._descriptor).st_size, _PIECE):
            os.pwrite(self._descriptor, os.pread(self._descriptor, _PIECE, start), start)
        self.sync()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class LogConnection(sqlite3.Connection):
    """A SQLite connection together with the log of its file. `log` is set once the file is ready.

    `identity` is the identity of the open file: another file may have taken its place at the path.
    """

    log: Log
    identity: tuple[int, int]

    def detach(self) -> "LogConnection":
        return self

    def close(self) -> None:
        super().close()
        if hasattr(self, "log"):
            self.log.close()
