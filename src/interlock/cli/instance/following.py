"""Looking at an instance until it has come to something. What works on it does so in the server, watched or not."""

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import TYPE_CHECKING

import click

from interlock.cli.instance.paths import path_of
from interlock.cli.instance.patience import LONGEST_PAUSE, Deadline, Patience
from interlock.cli.instance.progress import Progress
from interlock.cli.instance.telling import Facts, event, name_of, standing, time_of
from interlock.errors import StillWorking

if TYPE_CHECKING:
    from interlock.cli.server.asking import Server

_PAUSES = (0.1, 0.2, 0.4, 0.7)
_MOST_EVENTS = 50


def follow(
    server: "Server", instance: Facts, is_over: Callable[[Facts], bool], deadline: Deadline, progress: Progress
) -> Facts:
    """The instance as it is when that is over; what happens to it meanwhile is told. Raises StillWorking."""
    patience = Patience(server, deadline)
    happenings = Happenings(patience, instance)
    try:
        for pause in pauses():
            instance = patience.get(path_of(instance["id"]))
            for one in happenings.new():
                progress.say(name_of(instance), event(one))
            if is_over(instance):
                return instance
            if not deadline.pause(pause):
                raise _passed(deadline, instance)
    except KeyboardInterrupt:
        click.echo(f"\n{_goes_on(name_of(instance))}" if instance["working"] else "", err=True)
        raise
    raise AssertionError("pauses have no end")


class Happenings:
    """The events of an instance since it was read; of one that is being worked on, since that was asked for."""

    def __init__(self, patience: Patience, instance: Facts) -> None:
        self._patience = patience
        self._path = path_of(instance["id"], "events")
        self._since = time_of(instance["updated_at"])
        self._told: set[tuple[str, str]] = set()
        if not instance["working"]:
            self.new()  # what there is belongs to work that is over

    def new(self) -> list[Facts]:
        """Those that were not given yet, the oldest first."""
        newest = self._patience.get(self._path, limit=_MOST_EVENTS)["items"]
        fresh = [one for one in newest if time_of(one["recorded_at"]) >= self._since and _key(one) not in self._told]
        self._told.update(map(_key, fresh))
        return sorted(fresh, key=lambda one: time_of(one["recorded_at"]))


def pauses() -> Iterator[float]:
    return chain(_PAUSES, repeat(LONGEST_PAUSE))


def _goes_on(name: str) -> str:
    return (
        f"interlock: What works on {name} goes on: `interlock instance wait {name}` waits for it, "
        f"`interlock instance cancel {name}` cancels it."
    )


def _passed(deadline: Deadline, instance: Facts) -> StillWorking:
    name = name_of(instance)
    rest = "nothing works on it."
    if instance["working"]:
        rest = f"what was asked for goes on, and `interlock instance wait {name}` waits for it."
    return StillWorking(f"{name} is {standing(instance)} after {deadline.timeout:g} s: {rest}")


def _key(one: Facts) -> tuple[str, str]:
    return one["recorded_at"], one["kind"]
