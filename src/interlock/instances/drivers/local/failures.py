"""What a cluster's failures mean to whoever asked for an instance."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interlock.errors import ClusterFailed, DataDirectoryUnusable, InterlockError, OutOfSpace, StatementFailed

_DISK_FULL = "53100"
_NO_SPACE = ("No space left on device", "Check free disk space")


@contextmanager
def in_words(root: Path) -> Iterator[None]:
    """Turns a full disk into OutOfSpace, and what else the system refuses into DataDirectoryUnusable."""
    try:
        yield
    except InterlockError as error:
        if _tells_of_full_disk(error):
            raise _out_of_space(root) from error
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _out_of_space(root) from error
        raise DataDirectoryUnusable(
            f"The directory of instances {root} cannot be used ({error}): correct that, or choose another."
        ) from error


def _tells_of_full_disk(error: InterlockError) -> bool:
    told = f"{error} {error.log_tail}" if isinstance(error, ClusterFailed) else str(error)
    return any(sign in told for sign in _NO_SPACE) or (
        isinstance(error, StatementFailed) and error.sqlstate == _DISK_FULL
    )


def _out_of_space(root: Path) -> OutOfSpace:
    return OutOfSpace(f"The disk of {root} is full: make room, or give instances a directory on another one.")
