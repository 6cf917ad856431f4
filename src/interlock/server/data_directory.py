"""Files in the data directory that are created once, such as the API key of this machine's commands."""

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from interlock.embedded.files import sync_directory
from interlock.errors import DataDirectoryUnusable
from interlock.keys.records import is_key, new_key

KEY_FILE = "api-key"


def local_api_key(data_dir: Path) -> str:
    """Returns the API key in the data directory; creates its file if it is missing. Only the file's owner can read it.

    Raises DataDirectoryUnusable.
    """
    path = data_dir / KEY_FILE
    try:
        key = create_once(path, new_key())
        facts = path.lstat()
    except OSError as error:
        raise DataDirectoryUnusable(
            f"The file {KEY_FILE} cannot be created or read in {data_dir} ({error.strerror}): "
            "choose another directory with --data-dir."
        ) from error
    private = stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o077
    if not private or not is_key(key):
        raise DataDirectoryUnusable(
            f"{path} has to contain an API key and be readable only by this user: remove the file, and the next "
            "`interlock up` creates another."
        )
    return key


def create_once(path: Path, content: str) -> str:
    """Create the file unless it exists. Returns its content: `content`, or the text of the process that was first.

    Each process writes a temporary file and links it to the real name. Only one process succeeds; the others read the
    content of its file. A crash before the link leaves a file with a random name, which no process reads. Raises
    OSError.
    """
    if not path.exists():
        _create_directory(path.parent)
        _create(path, content)
    return path.read_text().strip()


def _create_directory(directory: Path) -> None:
    """Creates the directory and its missing parents. Only their owner may write in them, whatever the umask is. If root
    creates them, other users may enter, because PostgreSQL runs as another user."""
    for place in reversed((directory, *directory.parents)):
        if not place.exists():
            for_root = 0o711 if place == directory else 0o755
            place.mkdir(mode=for_root if os.geteuid() == 0 else 0o700, exist_ok=True)


def _create(path: Path, content: str) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(content + "\n")
            file.flush()
            os.fsync(handle)
        with suppress(FileExistsError):
            path.hardlink_to(temporary)
        sync_directory(path.parent)
    finally:
        temporary.unlink()
