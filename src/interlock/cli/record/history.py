"""Looking at a record until it has come to something. What works on it does so in the server, watched or not."""

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import TYPE_CHECKING

import click

from interlock.cli.record.kind import Facts, Kind, time_of
from interlock.cli.record.paths import path_of
from interlock.cli.record.patience import LONGEST_PAUSE, Deadline, OutagePatience
from interlock.cli.record.progress import ProgressLines
from interlock.errors import StillWorking

if TYPE_CHECKING:
    from interlock.cli.server.client import ControlPlane

_PAUSES = (0.1, 0.2, 0.4, 0.7)
_MOST_EVENTS = 50


def follow(
    server: "ControlPlane",
    kind: Kind,
    record: Facts,
    is_over: Callable[[Facts], bool],
    deadline: Deadline,
    progress: ProgressLines,
) -> Facts:
    """The record as it is when that is over; what happens to it meanwhile is told. Raises StillWorking."""
    patience = OutagePatience(server, deadline)
    happenings = Happenings(patience, kind, record)
    try:
        for pause in _pauses():
            record = patience.get(path_of(kind.path, record["id"]))
            for one in happenings.new():
                progress.say(kind.label(record), kind.event(one))
            if is_over(record):
                return record
            if not deadline.pause(pause):
                raise _passed(deadline, kind, record)
    except KeyboardInterrupt:
        click.echo(f"\n{_goes_on(kind, record)}" if record["working"] else "", err=True)
        raise
    raise AssertionError("pauses have no end")


class Happenings:
    """The events of a record since it was read; of one that is being worked on, since that was asked for."""

    def __init__(self, patience: OutagePatience, kind: Kind, record: Facts) -> None:
        self._patience = patience
        self._path = path_of(kind.path, record["id"], "events")
        self._since = time_of(record["updated_at"])
        self._told: set[tuple[str, str]] = set()
        if not record["working"]:
            self.new()  # what there is belongs to work that is over

    def new(self) -> list[Facts]:
        """Those that were not given yet, the oldest first."""
        newest = self._patience.get(self._path, limit=_MOST_EVENTS)["items"]
        fresh = [one for one in newest if time_of(one["recorded_at"]) >= self._since and _key(one) not in self._told]
        self._told.update(map(_key, fresh))
        return sorted(fresh, key=lambda one: time_of(one["recorded_at"]))


def _pauses() -> Iterator[float]:
    return chain(_PAUSES, repeat(LONGEST_PAUSE))


def _goes_on(kind: Kind, record: Facts) -> str:
    cancels = f", `{kind.cancel_command(record)}` cancels it" if kind.cancel_command else ""
    return f"interlock: What works on {kind.label(record)} goes on: {kind.follow_up(record)}{cancels}."


def _passed(deadline: Deadline, kind: Kind, record: Facts) -> StillWorking:
    rest = "nothing works on it."
    if record["working"]:
        rest = f"what was asked for goes on, and {kind.follow_up(record)}."
    return StillWorking(f"{kind.label(record)} is {kind.standing(record)} after {deadline.timeout:g} s: {rest}")


def _key(one: Facts) -> tuple[str, str]:
    return one["recorded_at"], one["kind"]
