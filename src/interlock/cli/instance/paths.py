"""Where the API has an instance, and a backup."""

from urllib.parse import quote

from interlock.errors import InvalidName


def path_of(name: str, *more: str) -> str:
    """`name` is what somebody typed: one part of the path, whatever is in it."""
    return "/".join(["/instances", _part(name), *more])


def backup_path(id: str, *more: str) -> str:  # noqa: A002
    return "/".join(["/backups", _part(id), *more])


def _part(typed: str) -> str:
    """Bytes that are no UTF-8 go as they came: the server knows nothing of that name.

    Raises InvalidName for what would lead elsewhere: an empty variable of a script is no wish for all instances.
    """
    if typed in ("", ".", ".."):
        raise InvalidName(f"{typed!r} is no name and no id: say which one is meant.", name=typed)
    return quote(typed, safe="", errors="surrogateescape")
