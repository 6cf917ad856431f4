"""The directory of an instance: its contents, its owner, and the order of creation and removal.

The directory is named after the instance's id. The lock is created first, then the marker, which says that the
directory is Interlock's, then everything else. The removal ends with the marker and the lock. So a directory without a
marker is either Interlock's, if it contains only the lock, left by a crash at the beginning or the end; or it belongs
to another program, and must not be touched.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from interlock.embedded.data_directory import delete_root
from interlock.embedded.files import sync_directory
from interlock.embedded.paths import ClusterPaths
from interlock.errors import BadSpec, ForeignResource
from interlock.logs import events

log = events(__name__)

# The id is part of a path, so it has neither a slash nor a leading dot.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)


@dataclass(frozen=True)
class Directory:
    """The paths of the instance `id` below the driver's `root`."""

    root: Path
    id: str

    @property
    def path(self) -> Path:
        return self.root / self.id

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def marker(self) -> Path:
        return self.path / "instance.json"

    @property
    def password(self) -> Path:
        """The file with the owner's password, as the server knows it."""
        return self.path / "password"

    @property
    def next_password(self) -> Path:
        """The file with the owner's next password. It exists only until the server knows it."""
        return self.path / "password.next"

    @property
    def cluster(self) -> Path:
        return self.path / "postgresql"

    def is_own(self) -> bool:
        """Return True if the directory exists and was created by this driver, completely or in part."""
        return self.path.is_dir() and (self.marker.is_file() or self._is_bare())

    def check_owned(self) -> None:
        """Raises ForeignResource if something else exists in the place of the directory."""
        if self.path.exists() and not self.is_own():
            raise ForeignResource(
                f"{self.path} was not created by Interlock: move it away, or give instances another directory."
            )

    def clear(self) -> None:
        """Remove everything except foreign files. The caller has to end the server before."""
        if self.cluster.exists():  # a part of it was removed by hand, or it has foreign files
            delete_root(ClusterPaths(self.cluster))
        for file in (self.password, self.next_password):
            file.unlink(missing_ok=True)
            _partial(file).unlink(missing_ok=True)
        sync_directory(self.path)
        log_step(self.id, "contents removed")
        _partial(self.marker).unlink(missing_ok=True)
        self.marker.unlink(missing_ok=True)
        log_step(self.id, "marker removed")
        self.lock.unlink(missing_ok=True)
        log_step(self.id, "lock removed")
        with suppress(OSError):  # it contains foreign files
            self.path.rmdir()
        sync_directory(self.root)

    def _is_bare(self) -> bool:
        own = {self.lock.name, _partial(self.marker).name}
        try:
            return {entry.name for entry in self.path.iterdir()} <= own
        except FileNotFoundError:  # removed in the meantime
            return True


def directory_of(root: Path, id: str) -> Directory:
    """Returns the directory of an instance. Raises BadSpec if `id` cannot be the name of a directory."""
    if not _ID.fullmatch(id):
        raise BadSpec(f"{id!r} cannot be the id of an instance: use at most 63 letters, digits, - and _.")
    return Directory(root, id)


def directories(root: Path) -> list[Directory]:
    """Returns the directories of all instances, complete or not."""
    if not root.is_dir():
        return []
    found = (Directory(root, entry.name) for entry in sorted(root.iterdir()) if _ID.fullmatch(entry.name))
    return [directory for directory in found if directory.is_own()]


def _partial(file: Path) -> Path:
    """Returns the path of the temporary file of `write_whole`."""
    return file.with_name(f"{file.name}.new")


def log_step(id: str, step: str) -> None:
    """Log a completed step of a verb. A crash may come after any of them."""
    log.debug("instance.step", extra={"id": id, "step": step})
