"""A record, and the inputs of its orchestrations.

The engine's histories keep the inputs, so no input holds a secret.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

DELETING, DELETED = "deleting", "deleted"
"""States that every kind of record has. No event leads out of `deleted`."""


@dataclass(frozen=True)
class Record:
    """The base of all records.

    While `working` is True, `orchestration` works on the record; otherwise it was the last one.

    `error` is the failure of that orchestration, if it failed. `revision` grows with each change.
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
        """The name of the record in messages."""
        return self.id


R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Task:
    """The work of one orchestration on one record. `after` is the orchestration that has to end first.

    An orchestration that needs further input declares a subclass with fields of its own (``kw_only=True``).
    """

    record: str = ""
    orchestration: str = ""
    after: str | None = None


@dataclass(frozen=True)
class Failure:
    """The reason why an orchestration did not complete."""

    code: str
    message: str


@dataclass(frozen=True)
class Transition:
    """An event of the record's state machine. `event=None` leaves the state as it is.

    `ends` is True if the work on the record ends with this transition. `gone` is True if everything that belonged to
    the record was observed to be gone; the record's names are then freed too.
    """

    task: Task
    event: str | None
    ends: bool = True
    gone: bool = False
    failure: Failure | None = None
