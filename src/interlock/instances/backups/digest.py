"""The digest of an archive: its size and its SHA-256.

The SHA-256 of a file is that of its content. The SHA-256 of a directory is that of a list of its files, each with name,
size and the SHA-256 of its content.
"""

import asyncio
import hashlib
from collections.abc import Generator
from itertools import islice
from pathlib import Path

from interlock.errors import DataDirectoryUnusable

_CHUNK = 2**20
_AT_A_TIME = 64
"""Chunks that one thread reads before the task can be cancelled."""


async def archive_digest(archive: Path) -> tuple[int, str]:
    """Returns the size and the SHA-256 of an archive."""
    digest = _Digest(archive)
    steps = digest.steps()
    try:
        while await asyncio.to_thread(lambda: list(islice(steps, _AT_A_TIME))):
            pass
    except OSError as error:
        raise DataDirectoryUnusable(f"{archive} cannot be read ({error}): correct that, and try again.") from error
    return digest.size, digest.sha256


class _Digest:
    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self.size = 0
        self.sha256 = ""

    def steps(self) -> Generator[None, None, None]:
        if self._archive.is_file():
            self.sha256 = yield from self._content(self._archive)
            return
        whole = hashlib.sha256()
        for file in sorted(path for path in self._archive.rglob("*") if path.is_file()):
            before = self.size
            content = yield from self._content(file)
            name = file.relative_to(self._archive).as_posix()
            whole.update(f"{name}\t{self.size - before}\t{content}\n".encode())
        self.sha256 = whole.hexdigest()

    def _content(self, file: Path) -> Generator[None, None, str]:
        content = hashlib.sha256()
        with file.open("rb") as opened:
            while chunk := opened.read(_CHUNK):
                content.update(chunk)
                self.size += len(chunk)
                yield
        return content.hexdigest()
