"""Looking at an instance until it has come to something. What works on it does so in the server, watched or not."""

import time
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.instance.paths import path_of
from interlock.cli.instance.progress import Progress
from interlock.cli.instance.telling import Facts, event, name_of, standing, time_of
from interlock.errors import ServerUnreachable, StillWorking

if TYPE_CHECKING:
    from interlock.cli.server.asking import Server

_PAUSES = (0.1, 0.2, 0.4, 0.7)
_LONGEST_PAUSE = 1.0
_PATIENCE = 60.0
"""Seconds that a server which is being started anew is waited for."""
_MOST_EVENTS = 50


class Deadline:
    """`timeout` in seconds from now; None is never."""

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self._at = None if timeout is None else time.monotonic() + timeout

    def pause(self, seconds: float) -> bool:
        """Whether there was time left for it."""
        left = seconds if self._at is None else self._at - time.monotonic()
        time.sleep(max(0.0, min(seconds, left)))
        return left > 0

    def passed(self, instance: Facts) -> StillWorking:
        return StillWorking(
            f"{name_of(instance)} is {standing(instance)} after {self._timeout:g} s: what was asked for goes on, and "
            f"`interlock instance wait {name_of(instance)}` waits for it."
        )


def follow(
    server: "Server", instance: Facts, is_over: Callable[[Facts], bool], deadline: Deadline, progress: Progress
) -> Facts:
    """The instance as it is when that is over; what happens to it meanwhile is told. Raises StillWorking."""
    happenings = Happenings(server, instance)
    try:
        for pause in pauses():
            instance = patiently(server, path_of(instance["id"]))
            for one in happenings.new():
                progress.say(name_of(instance), event(one))
            if is_over(instance):
                return instance
            if not deadline.pause(pause):
                raise deadline.passed(instance)
    except KeyboardInterrupt:
        name = name_of(instance)
        click.echo(
            f"\ninterlock: What works on {name} goes on: `interlock instance wait {name}` waits for it, "
            f"`interlock instance cancel {name}` cancels it.",
            err=True,
        )
        raise
    raise AssertionError("pauses have no end")


class Happenings:
    """The events of an instance since it was read."""

    def __init__(self, server: "Server", instance: Facts) -> None:
        self._server = server
        self._path = path_of(instance["id"], "events")
        self._since = time_of(instance["updated_at"])
        self._told: set[tuple[str, str]] = set()

    def new(self) -> list[Facts]:
        """Those that were not given yet, the oldest first."""
        newest = patiently(self._server, self._path, limit=_MOST_EVENTS)["items"]
        fresh = [one for one in newest if time_of(one["recorded_at"]) >= self._since and _key(one) not in self._told]
        self._told.update(map(_key, fresh))
        return sorted(fresh, key=lambda one: time_of(one["recorded_at"]))


def patiently(server: "Server", path: str, **query: Any) -> Any:
    """Whoever waits minds no restart of the server."""
    give_up_at = time.monotonic() + _PATIENCE
    while True:
        try:
            return server.get(path, **query)
        except ServerUnreachable:
            if time.monotonic() > give_up_at:
                raise
        time.sleep(_LONGEST_PAUSE)


def pauses() -> Iterator[float]:
    return chain(_PAUSES, repeat(_LONGEST_PAUSE))


def _key(one: Facts) -> tuple[str, str]:
    return one["recorded_at"], one["kind"]
