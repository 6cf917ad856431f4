"""A file that is made once, by whichever process comes first, and whole or not at all.

It is written under a name of its own and then linked to the real name, which succeeds for one; the others take that
one's. A crash before the link leaves a file with a random name, which nobody reads.
"""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from interlock.embedded.files import sync_directory


def made_once(path: Path, content: str) -> str:
    """What is in the file, in the end: `content`, unless it was there before. Raises OSError."""
    if not path.exists():
        _make_way(path.parent)
        _make(path, content)
    return path.read_text().strip()


def _make_way(directory: Path) -> None:
    """Only we write there, whatever our umask is; whoever runs PostgreSQL in it for root has to get through."""
    for place in reversed((directory, *directory.parents)):
        if not place.exists():
            for_root = 0o711 if place == directory else 0o755
            place.mkdir(mode=for_root if os.geteuid() == 0 else 0o700, exist_ok=True)


def _make(path: Path, content: str) -> None:
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(content + "\n")
            file.flush()
            os.fsync(handle)
        with suppress(FileExistsError):
            path.hardlink_to(fresh)
        sync_directory(path.parent)
    finally:
        fresh.unlink()
