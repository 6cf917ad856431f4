"""The declaration of a kind of record for commands, and the facts that the API returns for every record."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from interlock.cli.output import duration_text, escaped, time_text, titled_lines
from interlock.cli.terminal import table_text

Facts = Mapping[str, Any]
"""A JSON object of the API."""

_EVENT_TEXTS = {"vanish": "deleted", "fail": "failed"}
"""Names of events that every state machine has, with the words that operators read for them."""
_SYSTEM = "interlock"
"""The actor of events that no operator requested."""


@dataclass(frozen=True)
class Kind:
    """`word` is the noun for one record, `path` the path of the kind in the API, and `columns` the head of its table.

    The functions take one record: `row` returns its line in the table, `facts` the facts that `show` prints, `label`
    its name, `status` its state, `outcome` the result of a request and the next step, `follow_up` the command that
    shows more, and `cancel_command` the command that cancels its work.
    """

    word: str
    path: str
    columns: Sequence[str]
    row: Callable[[Facts, datetime], Sequence[str]]
    facts: Callable[[Facts], Mapping[str, object]]
    label: Callable[[Facts], str]
    status: Callable[[Facts], str]
    outcome: Callable[[Facts], str]
    follow_up: Callable[[Facts], str]
    cancel_command: Callable[[Facts], str] | None = None
    argument: str = "NAME"
    """The name of the argument on the command line that stands for one record."""
    events: Mapping[str, str] = field(default_factory=dict)

    def table(self, records: Sequence[Facts], now: datetime, width: int | None) -> str:
        rows = [[escaped(str(cell or "-")) for cell in self.row(one, now)] for one in records]
        return table_text(self.columns, rows, width) if records else f"There is no such {self.word}."

    def text(self, record: Facts) -> str:
        return titled_lines(self.label(record), self.facts(record))

    def event_text(self, event: Facts) -> str:
        kind = {**_EVENT_TEXTS, **self.events}.get(event["kind"], str(event["kind"]))
        actor = str(event.get("actor") or _SYSTEM)
        by = "" if actor == _SYSTEM else f" by {actor}"
        detail = event.get("detail")
        return escaped(f"{kind}{by}: {detail}" if detail else f"{kind}{by}")


def error_text(record: Facts) -> str:
    """Returns the error of the last orchestration that worked on the record; empty if that had no error."""
    error = record["error"]
    return escaped(f"{error['message']} ({error['code']})") if error else ""


def time_of(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def age_of(text: str, now: datetime) -> str:
    return duration_text((now - time_of(text)).total_seconds())


def common_facts(record: Facts) -> Mapping[str, object]:
    """Returns the facts that `show` prints for every kind of record."""
    return {
        "worked on by": record["working"] and record["orchestration"],
        "created": time_text(time_of(record["created_at"])),
        "changed": time_text(time_of(record["updated_at"])),
        "deleted": record["deleted_at"] and time_text(time_of(record["deleted_at"])),
        "id": record["id"],
    }
