"""Paths of records in the API, and its lists, page after page."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from interlock.cli.record.kind import Facts
from interlock.errors import InvalidName

PAGE = 200


def path_of(kind: str, name: str, *more: str) -> str:
    """`kind` is the path of all records of the kind; `name` is what the user typed, one segment. Raises InvalidName."""
    return "/".join([kind, _segment(name), *more])


def pages(get: Callable[..., Any], path: str, query: dict[str, Any]) -> Iterator[Facts]:
    """Yields every item of a list."""
    after = None
    while True:
        page = get(path, **query, after=after)
        yield from page["items"]
        after = page["next"]
        if after is None:
            return


def _segment(typed: str) -> str:
    """Bytes that are not UTF-8 are sent as they are: the server has no such name.

    A name that would lead elsewhere is refused. A script's empty variable is no request for all instances, and servers
    take an encoded slash for a slash.
    """
    if typed in ("", ".", "..") or "/" in typed:
        raise InvalidName(f"{typed!r} is neither a name nor an id: give the name of one record.", name=typed)
    return quote(typed, safe="", errors="surrogateescape")
