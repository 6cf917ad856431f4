"""A kind of record as commands speak of it, and what the API tells of all of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from interlock.cli.output import duration_text, escaped, time_text, titled_lines
from interlock.cli.terminal import table_text

Facts = Mapping[str, Any]
"""As the API has them."""

_WORDS = {"vanish": "deleted", "fail": "failed"}
"""Events of state machines, as people call them."""
_ITSELF = "interlock"
"""The actor of everything that nobody asked for alone."""


@dataclass(frozen=True)
class Kind:
    """`word` is what people call one, `path` is that of the API, and `columns` are those of its table.

    Of one record: `row` is its line in the table, `facts` are those that `show` tells, `label` is its name, `standing`
    its state, `outcome` what has come of a request and what to do next, `follow_up` a command that tells more, and
    `cancel_command` the one that cancels.
    """

    word: str
    path: str
    columns: Sequence[str]
    row: Callable[[Facts, datetime], Sequence[str]]
    facts: Callable[[Facts], Mapping[str, object]]
    label: Callable[[Facts], str]
    standing: Callable[[Facts], str]
    outcome: Callable[[Facts], str]
    follow_up: Callable[[Facts], str]
    cancel_command: Callable[[Facts], str] | None = None
    argument: str = "NAME"
    """The name of one on the command line."""
    events: Mapping[str, str] = field(default_factory=dict)

    def table(self, records: Sequence[Facts], now: datetime, width: int | None) -> str:
        rows = [[escaped(str(cell or "-")) for cell in self.row(one, now)] for one in records]
        return table_text(self.columns, rows, width) if records else f"There is no such {self.word}."

    def text(self, record: Facts) -> str:
        return titled_lines(self.label(record), self.facts(record))

    def event(self, happening: Facts) -> str:
        kind = {**_WORDS, **self.events}.get(happening["kind"], str(happening["kind"]))
        actor = str(happening.get("actor") or _ITSELF)
        by = "" if actor == _ITSELF else f" by {actor}"
        detail = happening.get("detail")
        return escaped(f"{kind}{by}: {detail}" if detail else f"{kind}{by}")


def trouble(record: Facts) -> str:
    """The error of the last orchestration that worked on it; empty if there was none."""
    error = record["error"]
    return escaped(f"{error['message']} ({error['code']})") if error else ""


def time_of(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def age_of(text: str, now: datetime) -> str:
    return duration_text((now - time_of(text)).total_seconds())


def moments_of(record: Facts) -> Mapping[str, object]:
    """The facts that `show` tells of every record."""
    return {
        "worked on by": record["working"] and record["orchestration"],
        "created": time_text(time_of(record["created_at"])),
        "changed": time_text(time_of(record["updated_at"])),
        "deleted": record["deleted_at"] and time_text(time_of(record["deleted_at"])),
        "id": record["id"],
    }
