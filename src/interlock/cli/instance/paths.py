"""Where the API has an instance, and a backup."""

from urllib.parse import quote

from interlock.errors import InvalidName


def path_of(name: str, *more: str) -> str:
    """`name` is what somebody typed: one part of the path, and not more. Raises InvalidName."""
    return "/".join(["/instances", _part(name), *more])


def backup_path(id: str, *more: str) -> str:  # noqa: A002
    """As `path_of`."""
    return "/".join(["/backups", _part(id), *more])


def _part(typed: str) -> str:
    """Bytes that are no UTF-8 go as they came: the server knows nothing of that name.

    What would lead elsewhere is refused: an empty variable of a script is no wish for all instances, and servers take
    a slash for one however it is written.
    """
    if typed in ("", ".", "..") or "/" in typed:
        raise InvalidName(f"{typed!r} is no name and no id: say which one is meant.", name=typed)
    return quote(typed, safe="", errors="surrogateescape")
