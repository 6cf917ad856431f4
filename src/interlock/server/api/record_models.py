"""The models that requests and records of every kind share."""

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from interlock.aggregate import record


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it contains control characters")
    return text


Text = Annotated[str, Field(max_length=300), AfterValidator(_printable)]


class RequestModel(BaseModel):
    """Unknown fields are refused: a misspelt field would otherwise be ignored silently."""

    model_config = ConfigDict(extra="forbid")


class Trouble(BaseModel):
    code: str = Field(description="The kind of error, for programs: the same codes as in problems.")
    message: str


class RecordModel(BaseModel):
    """`orchestration` is the id of the last orchestration of the record; it is still working if `working` is true."""

    id: str
    revision: int = Field(description="Grows with each change. It is the `ETag` of answers: send it as If-Match.")
    error: Trouble | None = Field(description="The error of the last orchestration; null if it succeeded.")
    orchestration: str
    working: bool
    created_at: datetime
    created_by: str = Field(description="`key:ID`, or `interlock`.")
    updated_at: datetime
    deleted_at: datetime | None

    @classmethod
    def of(cls, record: record.Record, **more: Any) -> Self:
        """`more` are the fields that the record does not have."""
        facts = {name: getattr(record, name) for name in cls.model_fields if name not in more}
        code = record.error_code or "error"
        error = None if record.error is None else Trouble(code=code, message=record.error)
        return cls(**facts | {"error": error} | more)
