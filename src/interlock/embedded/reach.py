"""Directories that the user who runs PostgreSQL passes through, and does not own."""

from pathlib import Path

from interlock.embedded.accounts import Account
from interlock.embedded.processes import can_enter
from interlock.errors import DataDirectoryUnusable


def make_passage(path: Path, account: Account) -> None:
    """Make `path`, and what is missing above it, so that `account` gets through. What is there stays as it is.

    Nobody but us writes into what is made, whatever our umask is.

    Raises DataDirectoryUnusable if it cannot get as far as what is there.
    """
    _check_reach(next(place for place in (path, *path.parents) if place.exists()), path, account)
    for place in reversed([path, *path.parents]):
        if not place.exists():
            mode = 0o700 if account.is_us else 0o711 if place == path else 0o755
            place.mkdir(mode=mode, exist_ok=True)  # so from the beginning: a crash here must not leave it closed
            place.chmod(mode)  # and this is for a umask that takes more from it


def _check_reach(existing: Path, wanted: Path, account: Account) -> None:
    if can_enter(account, existing):
        return
    closed = next(place for place in reversed([existing, *existing.parents]) if not can_enter(account, place))
    raise DataDirectoryUnusable(
        f"{wanted} cannot be used, user {account.name}, which is to run PostgreSQL, cannot enter {closed}: "
        "choose another directory with --data-dir."
    )
