"""Builds the paths of records in the API, and reads the API's lists page by page."""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

from interlock.cli.record.kind import Facts
from interlock.errors import InvalidName

PAGE = 200


def path_of(kind: str, name: str, *more: str) -> str:
    """Returns the path of one record. `kind` is the path of all records of its kind, `name` the text that the user
    typed. Raises InvalidName if `name` is not one segment of a path."""
    return "/".join([kind, _segment(name), *more])


def pages(get: Callable[..., Any], path: str, query: dict[str, Any]) -> Iterator[Facts]:
    """Yields every item of the list at `path`, and reads a further page when it needs one."""
    after = None
    while True:
        page = get(path, **query, after=after)
        yield from page["items"]
        after = page["next"]
        if after is None:
            return


def _segment(typed: str) -> str:
    """Returns the name as a segment of a path. Bytes that are not UTF-8 stay: the server has no record of such a name.

    Raises InvalidName for text that would be another path: an empty name, from an empty variable in a script, must not
    request all records, and servers read an encoded slash as a slash.
    """
    if typed in ("", ".", "..") or "/" in typed:
        raise InvalidName(f"{typed!r} can be neither a name nor an id: give the name of one record.", name=typed)
    return quote(typed, safe="", errors="surrogateescape")
