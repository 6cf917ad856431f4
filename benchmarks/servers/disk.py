"""A directory on a real disk: a commit that is only kept in memory would measure nothing."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# By convention /var/tmp survives a restart and is therefore on a disk, which /tmp often is not.
DEFAULT = Path("/var/tmp")  # noqa: S108 - mkdtemp makes a directory of our own in it
_IN_MEMORY = {"tmpfs", "ramfs"}


@contextmanager
def directory_on_disk(parent: Path) -> Iterator[Path]:
    """A new directory in `parent` that PostgreSQL's user can enter too. It is removed afterwards."""
    if (kind := file_system(parent)) in _IN_MEMORY:
        raise SystemExit(f"{parent} is kept in memory ({kind}): name a directory on a disk with --disk.")
    directory = Path(tempfile.mkdtemp(prefix="interlock-benchmark-", dir=parent))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def file_system(path: Path) -> str:
    """The type of the file system of `path`; empty if it is unknown."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return ""
    here = path.resolve()
    under = [(len(where), kind) for _, where, kind, *_ in mounts if here.is_relative_to(where)]
    return max(under)[1] if under else ""
