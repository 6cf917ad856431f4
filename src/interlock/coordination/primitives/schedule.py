"""Schedules: intervals and cron expressions, and the ticks that are due, including missed ticks.

A tick is a moment at which a run is due. Moments are in seconds since 1970.
"""

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from interlock.clock import duration_of
from interlock.coordination.lease.times import Duration, seconds
from interlock.errors import ConfigurationError

Missed = Literal["skip", "once"] | int
"""The choice for missed ticks. ``skip``: ticks that were not begun in time are not run. ``once``: one run makes up for
all missed ticks. A number: so many of the newest missed ticks are run."""

_SHORTEST = 0.1
_MOST = 1000
_MICRO = 1_000_000
"""Intervals are counted in microseconds, because floating-point multiples of a tenth would drift."""


class Schedule(Protocol):
    def last(self, moment: float) -> float:
        """Returns the newest tick that is not after `moment`."""

    def before(self, tick: float) -> float:
        """Returns the tick before `tick`."""

    def after(self, tick: float) -> float:
        """Returns the tick after `tick`."""


class Interval:
    """A fixed interval. Its ticks are the multiples of the interval since 1970, so every replica has the same ticks."""

    def __init__(self, length: float) -> None:
        if not _SHORTEST <= length < math.inf:
            raise ConfigurationError(f"An interval of {length:g} s cannot work: use {_SHORTEST:g} s or more.")
        self._length = round(length * _MICRO)

    def last(self, moment: float) -> float:
        return round(moment * _MICRO) // self._length * self._length / _MICRO

    def before(self, tick: float) -> float:
        return (round(tick * _MICRO) - self._length) / _MICRO

    def after(self, tick: float) -> float:
        return (round(tick * _MICRO) + self._length) / _MICRO


class Cron:
    """A cron expression, by the local time of a time zone."""

    def __init__(self, expression: str, timezone: str | None) -> None:
        try:
            from cronsim import CronSim, CronSimError
        except ImportError as error:
            raise ConfigurationError(
                "Cron expressions need one more package: run pip install 'interlock[cron]', or use an interval such "
                "as '5m'."
            ) from error
        try:
            CronSim(expression, datetime.now(UTC))
            self._zone = UTC if timezone is None else ZoneInfo(timezone)
        except CronSimError as error:
            raise ConfigurationError(
                f"{expression!r} is not a valid cron expression: {error}. Correct it, for example to '*/5 * * * *'."
            ) from error
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ConfigurationError(
                f"This machine does not know the time zone {timezone!r}: correct the name, or run pip install tzdata."
            ) from error
        self._expression = expression
        self._walk = CronSim

    def last(self, moment: float) -> float:
        return self.before(math.floor(moment) + 1)

    def before(self, tick: float) -> float:
        return next(self._walk(self._expression, self._date(tick), reverse=True)).timestamp()

    def after(self, tick: float) -> float:
        return next(self._walk(self._expression, self._date(tick))).timestamp()

    def _date(self, moment: float) -> datetime:
        return datetime.fromtimestamp(moment, self._zone)


def schedule(when: str | Duration, timezone: str | None = None) -> Schedule:
    """Makes a schedule from ``"5m"``, ``timedelta(minutes=5)``, ``300``, or the cron expression ``"*/5 * * * *"``."""
    if isinstance(when, str) and len(when.split()) >= 5:
        return Cron(when, timezone)
    if timezone is not None:
        raise ConfigurationError("An interval has no time zone: leave the time zone out, or use a cron expression.")
    return Interval(interval(when))


def interval(given: str | Duration) -> float:
    """Returns the interval in seconds."""
    if not isinstance(given, str):
        return seconds(given)
    length = duration_of(given)
    if length is None:
        raise ConfigurationError(
            f"{given!r} is neither an interval nor a cron expression: write it as '90s', '5m', '1h', or '*/5 * * * *'."
        )
    return length


def checked_missed(missed: Missed) -> Missed:
    if missed in ("skip", "once"):
        return missed
    if isinstance(missed, int) and not isinstance(missed, bool) and 1 <= missed <= _MOST:
        return missed
    raise ConfigurationError(f"missed={missed!r}: use 'skip', 'once' or a number of runs from 1 to {_MOST}.")


def due(schedule: Schedule, done: float, now: float, missed: Missed) -> list[float]:
    """Returns the ticks to run now, oldest first; `done` is the last tick that was run."""
    newest = schedule.last(now)
    if newest <= done:
        return []
    if missed == "skip":
        return [newest] if now - newest < (schedule.after(newest) - newest) / 2 else []
    most = 1 if missed == "once" else int(missed)
    return [tick for tick in _back(schedule, newest, most) if tick > done][::-1]


def _back(schedule: Schedule, tick: float, most: int) -> Iterator[float]:
    for _ in range(most):
        yield tick
        tick = schedule.before(tick)


def as_date(tick: float) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(seconds=tick)
