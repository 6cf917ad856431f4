"""A record, and what its orchestrations are given. All of that is kept in histories, so there is no secret in it."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

DELETING, DELETED = "deleting", "deleted"
"""States that every kind of record has. Nothing leads out of the second one."""


@dataclass(frozen=True)
class Record:
    """`orchestration` works on it while `working`, and was the last that did otherwise; `error` is how that failed.

    `revision` grows with each change.
    """

    id: str
    state: str
    revision: int
    orchestration: str
    working: bool
    error: str | None
    error_code: str | None
    created_at: datetime
    created_by: str
    updated_at: datetime
    deleted_at: datetime | None

    @property
    def label(self) -> str:
        """Its name in messages."""
        return self.id


R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Task:
    """One orchestration's work on one record. `after`: another orchestration, which has to end first.

    What an orchestration needs beyond that is a subclass with fields of its own (``kw_only=True``).
    """

    record: str = ""
    orchestration: str = ""
    after: str | None = None


@dataclass(frozen=True)
class Failure:
    """The end of an orchestration that did not complete."""

    code: str
    message: str


@dataclass(frozen=True)
class Transition:
    """An event of the record's states; None leaves it in its state. `ends`: the work on it is done then.

    `gone`: everything of it was seen to be gone, so its names are freed too.
    """

    task: Task
    event: str | None
    ends: bool = True
    gone: bool = False
    failed: Failure | None = None
