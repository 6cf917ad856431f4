"""The recorder of events in processes that use leases, for the check in `support.histories`.

Each process appends lines to a file of its own, so that a SIGKILL costs at most the last of them. All times are of
`interlock.clock.boottime()`, which the processes of one machine share. The order of reading matters, because a process
may be suspended between any two lines. The begin of trust is read before the trust itself, so that a suspension in
between makes the trust shorter. Its end is read before the release.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from interlock.clock import boottime

Kind = Literal["granted", "trusted", "ended", "lost", "looked", "acknowledged", "refused", "seen"]


@dataclass(frozen=True)
class Event:
    """The meaning of `at` and `until` for each kind:

    - granted, trusted: the process may act on the grant from `at` until `until`, unless it records `ended` before.
    - ended: it does not act on the grant any more, because it releases it. lost: because it was notified of the loss.
    - looked: the new holder found `number` writes with lower tokens when it first read the table.
    - acknowledged: the guarded write at position `number` was committed. refused: one was not.
    - seen: a watcher read the row between `at` and `until`, and the row had `grant_id` (empty: no holder).
    """

    kind: Kind
    name: str
    at: float
    until: float = 0.0
    token: int = 0
    grant_id: str = ""
    number: int = 0
    process: str = ""


class Granted(Protocol):
    """The recorded attributes of a grant, synchronous or asynchronous."""

    @property
    def name(self) -> str: ...
    @property
    def token(self) -> int: ...
    @property
    def grant_id(self) -> Any: ...
    @property
    def remaining(self) -> float: ...


class Recorder:
    def __init__(self, directory: Path, process: str) -> None:
        self._process = process
        self._file = os.open(
            directory / f"{process}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644
        )

    def granted(self, grant: Granted) -> None:
        """Call this when `acquire` returns."""
        at = boottime()
        self._note(grant, "granted", at=at, until=at + grant.remaining)

    def trusted(self, grant: Granted) -> None:
        """Call this from time to time while the grant is held."""
        at = boottime()
        self._note(grant, "trusted", at=at, until=at + grant.remaining)

    def ended(self, grant: Granted) -> None:
        """Call this before `release`."""
        self._note(grant, "ended", at=boottime())

    def lost(self, grant: Granted) -> None:
        """Call this when the holder is notified of the loss."""
        self._note(grant, "lost", at=boottime())

    def looked(self, grant: Granted, number: int) -> None:
        self._note(grant, "looked", at=boottime(), number=number)

    def acknowledged(self, grant: Granted, position: int) -> None:
        self._note(grant, "acknowledged", at=boottime(), number=position)

    def refused(self, grant: Granted) -> None:
        self._note(grant, "refused", at=boottime())

    def seen(self, name: str, grant_id: object | None, *, began_at: float) -> None:
        self._append(Event("seen", name, began_at, boottime(), grant_id=str(grant_id or ""), process=self._process))

    def close(self) -> None:
        os.close(self._file)

    def _note(self, grant: Granted, kind: Kind, **more: Any) -> None:
        event = Event(kind, grant.name, token=grant.token, grant_id=str(grant.grant_id), process=self._process, **more)
        self._append(event)

    def _append(self, event: Event) -> None:
        os.write(self._file, json.dumps(asdict(event)).encode() + b"\n")


def recorded(directory: Path) -> list[Event]:
    """All recorded events, in no particular order."""
    return [event for path in sorted(directory.glob("*.jsonl")) for event in _read(path)]


def _read(path: Path) -> Iterator[Event]:
    for line in path.read_text().splitlines(keepends=True):
        if line.endswith("\n"):  # otherwise the process was killed while it wrote the line
            yield Event(**json.loads(line))
