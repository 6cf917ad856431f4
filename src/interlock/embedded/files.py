"""Writes files and directories with the right owner and mode, whole or not at all."""

import os
import stat
from pathlib import Path

from interlock.embedded.accounts import Account
from interlock.embedded.processes import can_enter
from interlock.errors import DataDirectoryUnusable


def write_whole(path: Path, content: bytes, account: Account, *, mode: int = 0o600) -> None:
    """Put `content` at `path`, owned by `account`; a crash leaves the old content or the new, never a part."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fchmod(handle, mode)
        _give(handle, account)
        os.fsync(handle)
    fresh.replace(path)
    sync_directory(path.parent)


def make_private(path: Path, account: Account) -> None:
    """Make a directory that only `account` may enter. A directory that exists at `path` has to be such a directory.

    Raises DataDirectoryUnusable if it is not.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        _check_private(path, account)
    else:
        _give(path, account)


def _check_private(path: Path, account: Account) -> None:
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != account.uid or found.st_mode & 0o077:
        raise DataDirectoryUnusable(
            f"{path} is not safe to use, because it is not a directory that only user {account.name} can enter: "
            f"remove {path}, or choose another directory with --data-dir."
        )


def sync_directory(path: Path) -> None:
    """Make creations, renames and removals in `path` durable."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def append(path: Path, text: str) -> None:
    """Append to a file, never through a link, because another user may be able to put a link in the directory."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(handle)


def _give(target: int | Path, account: Account) -> None:
    if not account.is_us:
        os.chown(target, account.uid, account.gid)


def make_reachable(path: Path, account: Account) -> None:
    """Make `path` and its missing parents, so that `account` can pass through. Existing directories stay unchanged.

    Only this process's user can write to the new directories, whatever the umask is.

    Raises DataDirectoryUnusable if `account` cannot reach the existing directories.
    """
    _check_reach(next(place for place in (path, *path.parents) if place.exists()), path, account)
    for place in reversed([path, *path.parents]):
        if not place.exists():
            mode = 0o700 if account.is_us else 0o711 if place == path else 0o755
            place.mkdir(mode=mode, exist_ok=True)  # this mode from the start: a crash here must not leave it closed
            place.chmod(mode)  # again, for a umask that removes more


def _check_reach(existing: Path, wanted: Path, account: Account) -> None:
    if can_enter(account, existing):
        return
    closed = next(place for place in reversed([existing, *existing.parents]) if not can_enter(account, place))
    raise DataDirectoryUnusable(
        f"{wanted} cannot be used because user {account.name}, which has to run PostgreSQL, cannot enter {closed}: "
        "choose another directory with --data-dir."
    )
