"""Pages of lists: the query parameters, and the cursor that leads to the next page.

A cursor is the place where a page ended, as text that clients send back unchanged.
"""

import base64
import binascii
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import Field

from interlock.aggregate.table import Cursor, Page
from interlock.errors import BadSpec
from interlock.server.api.record_models import RecordModel, RequestModel

M = TypeVar("M", bound=RecordModel)


class LimitQuery(RequestModel):
    limit: int = Field(50, ge=1, le=200)


class ListQuery(RequestModel):
    """One page of a list of records."""

    deleted: bool = Field(False, description="List deleted records too.")
    limit: int = Field(50, ge=1, le=200)
    after: str | None = Field(None, max_length=2000, description="The `next` of the previous page.")

    def place(self, *order: str) -> Cursor | None:
        """Returns the place in `after`. `order` distinguishes this list's cursors from the cursors of other lists."""
        return place_after(self.after, *order)


class EventQuery(LimitQuery):
    """One page of a record's events."""

    after: str | None = Field(None, max_length=2000, description="The `next` of the previous page.")

    @property
    def place(self) -> tuple[datetime, str] | None:
        if (place := place_after(self.after, "events")) is None:
            return None
        moment, kind = place
        try:
            return datetime.fromisoformat(moment).astimezone(UTC), kind
        except (ValueError, OverflowError) as error:
            raise BadSpec(
                "The cursor in `after` is not the `next` of a page: leave `after` out to begin with the first page."
            ) from error


def page_of(page: Page[Any], model: Callable[[Any], M], *order: str) -> tuple[list[M], str | None]:
    """Returns the items of the page as the API shows them, and the `next` of the page."""
    following = page.following and packed(*order, *page.following)
    return [model(one) for one in page.items], following or None


def packed(*place: str) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


def unpacked(cursor: str, *kind: str, more: int) -> list[str]:
    """Returns the `more` parts of the cursor after `kind`. Raises BadSpec if the cursor does not have this form."""
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
        raise BadSpec(
            "The cursor in `after` is not the `next` of a page in this order: "
            "leave `after` out to begin with the first page."
        )
    return place[len(kind) :]


def place_after(after: str | None, *kind: str) -> tuple[str, str] | None:
    """Returns the sort key and the id of the last record on the previous page; None for the first page."""
    if after is None:
        return None
    key, last = unpacked(after, *kind, more=2)
    return key, last
