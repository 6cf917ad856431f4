"""The write-ahead log, put on the disk by a descriptor of our own.

What fails. What a system could not write it forgets to write: it tells each descriptor of the file once, one that is
opened later perhaps never, and the next sync succeeds, with a hole in the log on the disk that ends it there after a
crash. So the descriptor is opened before anything is committed that it answers for; and after a failure no sync counts
until the log was emptied into the database.
"""

import os
import sqlite3
import sys
from pathlib import Path

_PIECE = 1 << 20
_sync = os.fsync if sys.platform == "darwin" else os.fdatasync


class Log:
    """Of a database that SQLite has open, which keeps it the same file. SQLite locks nothing in it: closing another
    descriptor of it, unlike one of the database, does no harm."""

    def __init__(self, database: Path) -> None:
        self._path = Path(os.path.realpath(database) + "-wal")  # where SQLite puts it, of a file behind a link too
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)

    def sync(self) -> None:
        """What was committed before is on the disk afterwards. A checkpoint that empties the log has put everything on
        the disk before."""
        if not os.path.samestat(self._path.stat(), os.fstat(self._descriptor)):
            raise FileNotFoundError(0, "its log was taken away")
        _sync(self._descriptor)

    def write_again(self) -> None:
        """The same bytes, while nobody else writes: whether the disk takes them now. Where it did not before, they may
        be there for us and yet be missing after a crash, if the file system did not get to note them as written."""
        for start in range(0, os.fstat(self._descriptor).st_size, _PIECE):
            os.pwrite(self._descriptor, os.pread(self._descriptor, _PIECE, start), start)
        self.sync()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class LogConnection(sqlite3.Connection):
    """One of ours, and the log of its file. `log` is there when the file is ready. `identity` is that of the file that
    is open, which may stand at its path no more."""

    log: Log
    identity: tuple[int, int]

    def let_go(self) -> "LogConnection":
        return self

    def close(self) -> None:
        super().close()
        if hasattr(self, "log"):
            self.log.close()
