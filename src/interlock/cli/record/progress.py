"""Follows a record until its work ends. The work goes on in the server even if the command stops.

Progress is printed on standard error, so that standard output contains only the result.
"""

import io
import sys
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

import click

from interlock.cli.record.api import path_of
from interlock.cli.record.deadline import LONGEST_PAUSE, Deadline, OutageTolerantReader
from interlock.cli.record.kind import Facts, Kind, time_of
from interlock.cli.terminal import ERASE, is_rewritable, width_of
from interlock.errors import StillWorking

if TYPE_CHECKING:
    from interlock.cli.server.client import ControlPlane

_PAUSES = (0.1, 0.2, 0.4, 0.7)
_MOST_EVENTS = 50


class ProgressLines:
    """Shows progress: on a terminal as one line that is rewritten, otherwise as a line for each step."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr or io.StringIO()  # standard error is None where it is closed
        self._is_rewritable = is_rewritable(self._stream)

    def show(self, name: str, step: str) -> None:
        line = f"{name}: {step}"
        if self._is_rewritable:
            self._stream.write(ERASE + line[: width_of(self._stream) - 1])
        else:
            self._stream.write(line + "\n")
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_rewritable:
            self._stream.write(ERASE)
            self._stream.flush()


def follow(
    server: "ControlPlane",
    kind: Kind,
    record: Facts,
    is_over: Callable[[Facts], bool],
    deadline: Deadline,
    progress: ProgressLines,
) -> Facts:
    """Show the record's events until `is_over`, and return the record. Raises StillWorking at the deadline."""
    reader = OutageTolerantReader(server, deadline)
    events = NewEvents(reader, kind, record)
    try:
        for pause in _pauses():
            record = reader.get(path_of(kind.path, record["id"]))
            for event in events.read():
                progress.show(kind.label(record), kind.event_text(event))
            if is_over(record):
                return record
            if not deadline.pause(pause):
                raise _still_working(deadline, kind, record)
    except KeyboardInterrupt:
        click.echo(f"\n{_goes_on(kind, record)}" if record["working"] else "", err=True)
        raise
    raise AssertionError("pauses have no end")


class NewEvents:
    """The events of a record since it was read; if an orchestration works on it, since that orchestration's request."""

    def __init__(self, reader: OutageTolerantReader, kind: Kind, record: Facts) -> None:
        self._reader = reader
        self._path = path_of(kind.path, record["id"], "events")
        self._since = time_of(record["updated_at"])
        self._returned: set[tuple[str, str]] = set()
        if not record["working"]:
            self.read()  # these events belong to work that has ended

    def read(self) -> list[Facts]:
        """Returns the events that it has not returned before, the oldest first."""
        newest = self._reader.get(self._path, limit=_MOST_EVENTS)["items"]
        fresh = [
            one for one in newest if time_of(one["recorded_at"]) >= self._since and _key(one) not in self._returned
        ]
        self._returned.update(map(_key, fresh))
        return sorted(fresh, key=lambda one: time_of(one["recorded_at"]))


def _pauses() -> Iterator[float]:
    return chain(_PAUSES, repeat(LONGEST_PAUSE))


def _goes_on(kind: Kind, record: Facts) -> str:
    cancels = f", `{kind.cancel_command(record)}` cancels it" if kind.cancel_command else ""
    return f"interlock: The work on {kind.label(record)} goes on: {kind.follow_up(record)}{cancels}."


def _still_working(deadline: Deadline, kind: Kind, record: Facts) -> StillWorking:
    rest = "nothing works on it."
    if record["working"]:
        rest = f"the requested work goes on, and {kind.follow_up(record)}."
    return StillWorking(f"{kind.label(record)} is {kind.status(record)} after {deadline.timeout:g} s: {rest}")


def _key(event: Facts) -> tuple[str, str]:
    return event["recorded_at"], event["kind"]
