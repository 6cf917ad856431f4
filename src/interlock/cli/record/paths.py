"""Where the API has a record."""

from urllib.parse import quote

from interlock.errors import InvalidName


def path_of(kind: str, name: str, *more: str) -> str:
    """`kind` is the path of all of them; `name` what somebody typed, which is one part. Raises InvalidName."""
    return "/".join([kind, _part(name), *more])


def _part(typed: str) -> str:
    """Bytes that are no UTF-8 go as they came: the server knows nothing of that name.

    What would lead elsewhere is refused: an empty variable of a script is no wish for all instances, and servers take
    a slash for one however it is written.
    """
    if typed in ("", ".", "..") or "/" in typed:
        raise InvalidName(f"{typed!r} is no name and no id: say which one is meant.", name=typed)
    return quote(typed, safe="", errors="surrogateescape")
