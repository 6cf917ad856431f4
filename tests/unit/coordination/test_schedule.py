"""Schedules: the ticks, and the policies for missed ones."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from interlock.coordination.primitives.schedule import Missed, checked_missed, due, interval, schedule
from interlock.errors import ConfigurationError


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("given", "length"),
    [("5m", 300), ("90s", 90), ("1.5h", 5400), ("250ms", 0.25), ("1d", 86400), (7, 7), (timedelta(minutes=2), 120)],
)
def test_an_interval_is_given_as_text_or_number(given: Any, length: float) -> None:
    assert interval(given) == length


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("5", "neither an interval nor a cron expression"),
        ("five minutes", "neither an interval"),
        ("-5m", "neither an interval"),
        ("", "neither an interval"),
        ("5 m m", "neither an interval"),
        (0, r"use 0\.1 s or more"),
        ("50ms", r"use 0\.1 s or more"),
        (float("nan"), r"use 0\.1 s or more"),
        (None, "not a length of time"),
        ("61 * * * *", "is not a valid cron expression"),
        ("0 0 30 2 *", "is not a valid cron expression"),
        ("* * * * * * *", "is not a valid cron expression"),
    ],
)
def test_a_schedule_that_names_no_time_is_refused(given: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        schedule(given)


def test_time_zones() -> None:
    berlin = schedule("30 6 * * *", "Europe/Berlin")
    assert berlin.last(at("2026-07-01 05:00")) == at("2026-07-01 04:30")
    assert berlin.last(at("2026-01-01 06:00")) == at("2026-01-01 05:30")
    with pytest.raises(ConfigurationError, match="does not know the time zone 'Nowhere'"):
        schedule("30 6 * * *", "Nowhere")
    with pytest.raises(ConfigurationError, match="An interval has no time zone"):
        schedule("5m", "Europe/Berlin")


@pytest.mark.parametrize("when", ["5m", "0.3s", "100ms", "7s", "*/5 * * * *", "0 3 * * 1", "*/10 * * * * *"])
def test_the_next_and_the_previous_tick_agree(when: str) -> None:
    ticks = [schedule(when).last(at("2026-11-16 05:42:14"))]
    for _ in range(500):
        ticks.append(schedule(when).after(ticks[-1]))
    for earlier, later in pairwise(ticks):
        assert earlier < later
        assert schedule(when).before(later) == earlier
        assert schedule(when).last(later) == later
        assert schedule(when).last((earlier + later) / 2) == earlier


@pytest.mark.parametrize(
    ("missed", "done", "now", "expected"),
    [
        ("once", 0, 9.9, []),
        ("once", 0, 10, [10]),
        ("once", 10, 19, []),
        ("once", 0, 45, [40]),
        ("skip", 0, 10.1, [10]),
        ("skip", 0, 14.9, [10]),
        ("skip", 0, 15, []),
        ("skip", 0, 41, [40]),
        ("skip", 0, 46, []),
        (2, 0, 45, [30, 40]),
        (2, 30, 45, [40]),
        (9, 0, 45, [10, 20, 30, 40]),
        (1, 0, 45, [40]),
        ("once", 50, 45, []),
    ],
)
def test_due_ticks(missed: Missed, done: float, now: float, expected: list[float]) -> None:
    assert due(schedule(10), done, now, missed) == expected


@pytest.mark.parametrize("missed", ["all", 0, -1, 1001, True, 1.5, None])
def test_an_unknown_policy_is_refused(missed: Any) -> None:
    with pytest.raises(ConfigurationError, match="use 'skip', 'once' or a number of runs"):
        checked_missed(missed)
