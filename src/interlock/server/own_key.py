"""The key with which commands on this machine get in: a file in the data directory that only its owner can read."""

import os
import stat
from pathlib import Path

from interlock.errors import DataDirectoryUnusable
from interlock.keys.records import is_key, new_key
from interlock.server.once_file import made_once

FILE = "api-key"


def own_key(data_dir: Path) -> str:
    """The directory's key, made if there is none. Raises DataDirectoryUnusable."""
    path = data_dir / FILE
    try:
        key = made_once(path, new_key())
        facts = path.lstat()
    except OSError as error:
        raise DataDirectoryUnusable(
            f"There can be no {FILE} in {data_dir} ({error.strerror}): choose another directory with --data-dir."
        ) from error
    private = stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o077
    if not private or not is_key(key):
        raise DataDirectoryUnusable(
            f"{path} is not a key that only this user can read: remove it, and the next `interlock up` makes another."
        )
    return key
