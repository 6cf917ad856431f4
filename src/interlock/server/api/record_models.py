"""Records of every kind as the API shows them, and the parameters of their lists."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from interlock.aggregate import record
from interlock.aggregate.table import Cursor, Page
from interlock.server.api import cursor

M = TypeVar("M", bound="RecordModel")


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it has control characters in it")
    return text


Text = Annotated[str, Field(max_length=300), AfterValidator(_printable)]


class Asked(BaseModel):
    """A field that is not known is refused: a misspelt one would pass in silence."""

    model_config = ConfigDict(extra="forbid")


class Trouble(BaseModel):
    code: str = Field(description="For programs: one of the codes that problems have too.")
    message: str


class RecordModel(BaseModel):
    """`orchestration` works on it while `working`, and was the last that did otherwise."""

    id: str
    revision: int = Field(description="Grows with each change; the `ETag`, for If-Match.")
    error: Trouble | None = Field(description="What the last orchestration ended with, unless it succeeded.")
    orchestration: str
    working: bool
    created_at: datetime
    created_by: str = Field(description="`key:ID`, or `interlock`.")
    updated_at: datetime
    deleted_at: datetime | None

    @classmethod
    def of(cls, record: record.Record, **more: Any) -> Self:
        """`more` are fields that the record has not."""
        facts = {name: getattr(record, name) for name in cls.model_fields if name not in more}
        code = record.error_code or "error"
        trouble = None if record.error is None else Trouble(code=code, message=record.error)
        return cls(**facts | {"error": trouble} | more)


class Listed(Asked):
    """The page of a list that is asked for."""

    deleted: bool = Field(False, description="Also those that are deleted.")
    limit: int = Field(50, ge=1, le=200)
    after: str | None = Field(None, max_length=2000, description="The `next` of the page before.")

    def place(self, *order: str) -> Cursor | None:
        """`order` tells this list's cursors from those of others."""
        return cursor.place(self.after, *order)


def page_of(page: Page[Any], model: Callable[[Any], M], *order: str) -> tuple[list[M], str | None]:
    """The items of the page as the API shows them, and its `next`."""
    following = page.following and cursor.packed(*order, *page.following)
    return [model(one) for one in page.items], following or None
