"""The key with which commands on this machine get in: a file in the data directory that only its owner can read.

Who may do what. Every replica of the directory makes one if there is none. It is written whole under a name of its own
and then linked to the real name, which succeeds for one of them; the others take that one's. A crash before the link
leaves a file with a random name, which nobody reads.
"""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from interlock.embedded.files import sync_directory
from interlock.errors import DataDirectoryUnusable
from interlock.keys.key import is_key, new_key

FILE = "api-key"


def own_key(data_dir: Path) -> str:
    """The directory's key, made if there is none. Raises DataDirectoryUnusable."""
    path = data_dir / FILE
    try:
        if not path.exists():
            # Whoever runs PostgreSQL in it for root has to get through.
            data_dir.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
            _make(path)
        return _read(path)
    except OSError as error:
        raise DataDirectoryUnusable(
            f"There can be no {FILE} in {data_dir} ({error.strerror}): choose another directory with --data-dir."
        ) from error


def _make(path: Path) -> None:
    fresh = path.with_name(f".{FILE}.{secrets.token_hex(8)}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(new_key() + "\n")
            file.flush()
            os.fsync(handle)
        with suppress(FileExistsError):
            path.hardlink_to(fresh)
        sync_directory(path.parent)
    finally:
        fresh.unlink()


def _read(path: Path) -> str:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle) as file:
        facts = os.fstat(handle)
        key = file.read(200).strip()
    if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o077 or not is_key(key):
        raise DataDirectoryUnusable(
            f"{path} is not a key that only this user can read: remove it, and the next `interlock up` makes another."
        )
    return key
