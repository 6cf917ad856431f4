"""Everything that a list of the API holds, page after page."""

from collections.abc import Callable, Iterator
from typing import Any

from interlock.cli.record.kind import Facts

PAGE = 200


def pages(get: Callable[..., Any], path: str, query: dict[str, Any]) -> Iterator[Facts]:
    after = None
    while True:
        page = get(path, **query, after=after)
        yield from page["items"]
        after = page["next"]
        if after is None:
            return
