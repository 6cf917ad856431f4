"""An instance's directory: what is in it, whose it is, and in which order it comes and goes.

It is named by the instance's id. First in it is the lock, then the marker, which says whose it is, then everything
else; on the way out the marker is the last but one. So whoever finds a directory without a marker knows: with nothing
in it but the lock, it is one of ours that a crash left at its beginning or its end; with anything else in it, it is
somebody else's, and nobody's to touch.
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

# Also a part of a path, and so nothing with a slash or a leading dot in it.
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
        """The owner's, as the server knows it."""
        return self.path / "password"

    @property
    def next_password(self) -> Path:
        """The owner's, as the server is to know it; there only until it does."""
        return self.path / "password.next"

    @property
    def cluster(self) -> Path:
        return self.path / "postgresql"

    def is_own(self) -> bool:
        """Whether it is there, and made by this driver, wholly or in part."""
        return self.path.is_dir() and (self.marker.is_file() or self._is_bare())

    def check_owned(self) -> None:
        """Raises ForeignResource if there is something in its place that is not ours."""
        if self.path.exists() and not self.is_own():
            raise ForeignResource(
                f"{self.path} was not made by Interlock: move it away, or give instances another directory."
            )

    def clear(self) -> None:
        """Remove everything but what somebody else put there. Its server is gone already."""
        if self.cluster.exists():  # a part of it was removed by hand, or something else was put there
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
        with suppress(OSError):  # it is not empty
            self.path.rmdir()
        sync_directory(self.root)

    def _is_bare(self) -> bool:
        own = {self.lock.name, _partial(self.marker).name}
        try:
            return {entry.name for entry in self.path.iterdir()} <= own
        except FileNotFoundError:  # removed while we looked
            return True


def directory_of(root: Path, id: str) -> Directory:
    """Raises BadSpec if `id` cannot be the name of a directory."""
    if not _ID.fullmatch(id):
        raise BadSpec(f"{id!r} cannot be the id of an instance: use letters, digits, - and _, at most 63 of them.")
    return Directory(root, id)


def directories(root: Path) -> list[Directory]:
    """Those of all instances, whole or not."""
    if not root.is_dir():
        return []
    found = (Directory(root, entry.name) for entry in sorted(root.iterdir()) if _ID.fullmatch(entry.name))
    return [directory for directory in found if directory.is_own()]


def _partial(file: Path) -> Path:
    """What `write_whole` makes until the file is whole."""
    return file.with_name(f"{file.name}.new")


def log_step(id: str, step: str) -> None:
    """Log a completed step of a verb. A crash may come after any of them."""
    log.debug("instance.step", extra={"id": id, "step": step})
