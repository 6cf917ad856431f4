"""The directory of backups.

Permissions: each attempt writes into a directory of its own. The name of that directory begins with a dot until the
archive in it is complete and on the disk; then the directory is renamed. No attempt writes into another one's
directory, so a late attempt leaves only files that do not count. Only the archive that the record names counts.

Crashes: a crash leaves a directory with a dot, or a directory without a dot that no record names. Both are removed by
the next successful attempt, by the clean-up, or by `sweep`.
"""

import errno
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interlock.embedded.files import sync_directory
from interlock.errors import BackupMissing, DataDirectoryUnusable, OutOfSpace
from interlock.instances.backups.model import Format

_ARCHIVES: dict[Format, str] = {"file": "archive.dump", "directory": "archive"}
_OWN = re.compile(r"\.?\d{8}T\d{6}Z-([0-9a-f-]{36})\.\d+(\.part)?")


class BackupDirectory:
    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    def begin(self, stem: str, attempt: int) -> Path:
        """Create a directory for an incomplete archive. Only this process's user can enter it."""
        part = self._partial_path(stem, attempt)
        with self._translated_errors():
            for place in reversed([part.parent, *part.parent.parents]):
                if not place.exists():
                    place.mkdir(mode=0o700, exist_ok=True)
            part.mkdir(mode=0o700)
        return part

    def publish(self, part: Path, stem: str, attempt: int, format: Format) -> str:
        """Rename `part`, whose archive is complete.

        Returns the archive's path, relative to the directory of backups.
        """
        with self._translated_errors():
            sync_directory(part)
            final = self._final_path(stem, attempt)
            part.rename(final)
            sync_directory(final.parent)
        return str((final / _ARCHIVES[format]).relative_to(self.root))

    def archive(self, part: Path, format: Format) -> Path:
        return part / _ARCHIVES[format]

    def has(self, path: str) -> bool:
        with self._translated_errors():
            return (self.root / path).exists()

    def locate(self, path: str) -> Path:
        """Returns the path of an archive. Raises BackupMissing if the archive is not on this machine."""
        archive = self.root / path
        if not self.has(path):
            raise BackupMissing(
                f"{archive} does not exist on this machine: set backup_dir to a directory that all replicas share."
            )
        return archive

    def remove(self, stem: str, but: str | None = None) -> None:
        """Remove everything of that backup, except the archive at `but`. Missing files are no error."""
        folder = (self.root / stem).parent
        kept = (self.root / but).parent if but else None
        with self._translated_errors():
            for directory in self._named(folder, Path(stem).name):
                if directory != kept:
                    remove_all(directory)
            if not but and folder.exists():
                sync_directory(folder)

    def entries(self) -> Iterator[tuple[str, Path]]:
        """Yields every directory of a backup, complete or not, with the id of the backup."""
        with self._translated_errors():
            folders = [folder for folder in self.root.iterdir() if folder.is_dir()] if self.root.exists() else []
            for folder in folders:
                for entry in folder.iterdir():
                    if match := _OWN.fullmatch(entry.name):
                        yield match[1], entry

    def _named(self, folder: Path, name: str) -> list[Path]:
        if not folder.exists():
            return []
        return [entry for entry in folder.iterdir() if entry.name.startswith((f"{name}.", f".{name}."))]

    def _partial_path(self, stem: str, attempt: int) -> Path:
        final = self._final_path(stem, attempt)
        return final.with_name(f".{final.name}.part")

    def _final_path(self, stem: str, attempt: int) -> Path:
        return self.root / f"{stem}.{attempt}"

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise out_of_space(self.root) from error
            raise DataDirectoryUnusable(
                f"The directory of backups {self.root} cannot be used ({error}): correct that, or choose "
                "another directory."
            ) from error


def out_of_space(root: Path) -> OutOfSpace:
    return OutOfSpace(f"The disk of {root} is full: free some space, or move backup_dir to another disk.")


def remove_all(place: Path) -> None:
    """Remove a directory that other processes may be removing too, or still be writing to."""
    for _ in range(3):
        shutil.rmtree(place, ignore_errors=True)
        if not place.exists():
            return
    shutil.rmtree(place)
