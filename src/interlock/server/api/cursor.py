"""Where a page ended, as text that means nothing to whoever carries it to the next request."""

import base64
import binascii
import json

from interlock.errors import BadSpec


def packed(*place: str) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def unpacked(cursor: str, *kind: str, more: int) -> list[str]:
    """The `more` parts that follow `kind`. Raises BadSpec for what was not packed so."""
    try:
        place = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        place = None
    if (
        not isinstance(place, list)
        or len(place) != len(kind) + more
        or place[: len(kind)] != list(kind)
        or not all(isinstance(part, str) and part.isprintable() for part in place)
    ):
        raise BadSpec("The cursor in `after` is not the `next` of a page in this order: leave it out to begin anew.")
    return place[len(kind) :]


def place(after: str | None, *kind: str) -> tuple[str, str] | None:
    """The sort key and the id of the last record of the page before; None: there was none."""
    if after is None:
        return None
    key, last = unpacked(after, *kind, more=2)
    return key, last
