"""A kind of record as commands speak of it, and what the API tells of all of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from interlock.cli.facts import shown

Facts = Mapping[str, Any]
"""As the API has them."""

_WORDS = {"vanish": "deleted", "fail": "failed"}
"""Events of state machines, as people call them."""
_ITSELF = "interlock"
"""The actor of everything that nobody asked for alone."""


@dataclass(frozen=True)
class Kind:
    """`path` is that of the API. Of one record: `label` is its name, `standing` its state, `outcome` what has come of a
    request and what to do next, `follow_up` a command that tells more, and `cancel_command` the one that cancels."""

    path: str
    label: Callable[[Facts], str]
    standing: Callable[[Facts], str]
    outcome: Callable[[Facts], str]
    follow_up: Callable[[Facts], str]
    cancel_command: Callable[[Facts], str] | None = None
    events: Mapping[str, str] = field(default_factory=dict)

    def event(self, happening: Facts) -> str:
        kind = {**_WORDS, **self.events}.get(happening["kind"], str(happening["kind"]))
        actor = str(happening.get("actor") or _ITSELF)
        by = "" if actor == _ITSELF else f" by {actor}"
        detail = happening.get("detail")
        return shown(f"{kind}{by}: {detail}" if detail else f"{kind}{by}")


def trouble(record: Facts) -> str:
    """The error of the last orchestration that worked on it; empty if there was none."""
    error = record["error"]
    return shown(f"{error['message']} ({error['code']})") if error else ""


def time_of(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
