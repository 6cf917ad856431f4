"""Directories that the user who runs PostgreSQL passes through, and does not own."""

from pathlib import Path

from interlock.embedded.accounts import Account
from interlock.embedded.processes import can_enter
from interlock.errors import DataDirectoryUnusable


def make_passage(path: Path, account: Account) -> None:
    """Make `path`, and what is missing above it, so that `account` gets through. What is there stays as it is.

    Raises DataDirectoryUnusable if it cannot get as far as what is there.
    """
    _check_reach(next(place for place in (path, *path.parents) if place.exists()), path, account)
    for place in reversed([path, *path.parents]):
        if not place.exists():
            place.mkdir(exist_ok=True)
            if not account.is_us:  # whatever our umask is, that user has to pass through
                place.chmod(0o711 if place == path else 0o755)
            elif place == path:
                place.chmod(0o700)


def _check_reach(existing: Path, wanted: Path, account: Account) -> None:
    if can_enter(account, existing):
        return
    closed = next(place for place in reversed([existing, *existing.parents]) if not can_enter(account, place))
    raise DataDirectoryUnusable(
        f"{wanted} cannot be used, user {account.name}, which is to run PostgreSQL, cannot enter {closed}: "
        "choose another directory with --data-dir."
    )
