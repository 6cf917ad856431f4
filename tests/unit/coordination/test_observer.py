"""The observer counts, logs and calls the hook; a hook that fails does no harm."""

import inspect
import logging
import subprocess
import sys
import threading
import timeit
from asyncio import CancelledError
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any, get_args

import pytest

from interlock.coordination import events
from interlock.coordination.events import (
    Acquired,
    Event,
    HandedOver,
    Lost,
    NotAcquired,
    Reason,
    Reconnected,
    Released,
    RenewalFailed,
    Renewed,
    Waiting,
)
from interlock.coordination.observation import observer as module
from interlock.coordination.observation.metric_catalogue import MEASURES, Snapshot
from interlock.coordination.observation.metrics import Histogram, Metrics, Outcome
from interlock.coordination.observation.observer import Observer
from interlock.errors import ConfigurationError, ConnectionLost

BROKEN = ConnectionLost("The database ended the connection.")

Call = Callable[[Observer], None]

# A call of the engine, its event, and the level of its log line. A short wait and a long one differ only in the level.
TOLD: list[tuple[str, Call, Event, int]] = [
    (
        "acquired at once",
        lambda o: o.granted("feeds", 17, 0.002, 1),
        Acquired("feeds", "web-1", 17, 0.002, 1),
        logging.DEBUG,
    ),
    (
        "acquired after a wait",
        lambda o: o.granted("feeds", 17, 1.0, 3),
        Acquired("feeds", "web-1", 17, 1.0, 3),
        logging.INFO,
    ),
    (
        "waiting",
        lambda o: o.waiting("feeds", "web-2", 16),
        Waiting("feeds", "web-2", 16, "web-1", 0.0),
        logging.DEBUG,
    ),
    (
        "waiting for an unknown holder",
        lambda o: o.waiting("feeds", None),
        Waiting("feeds", None, None, "web-1", 0.0),
        logging.DEBUG,
    ),
    (
        "waiting for long",
        lambda o: o.still_waiting("feeds", "web-2", 2.5, 16),
        Waiting("feeds", "web-2", 16, "web-1", 2.5),
        logging.INFO,
    ),
    (
        "not acquired in time",
        lambda o: o.not_acquired("feeds", 5.0, 3, "timeout", "web-2", 16),
        NotAcquired("feeds", "web-2", 16, "web-1", 5.0, 3, "timeout"),
        logging.INFO,
    ),
    (
        "not acquired, and not waited for",
        lambda o: o.not_acquired("feeds", 0.001, 1, "busy"),
        NotAcquired("feeds", None, None, "web-1", 0.001, 1, "busy"),
        logging.DEBUG,
    ),
    (
        "released",
        lambda o: o.released("feeds", 17, 0.5),
        Released("feeds", "web-1", 17, 0.5),
        logging.DEBUG,
    ),
    (
        "handed over",
        lambda o: o.handed_over("feeds", 17, 0.5),
        HandedOver("feeds", "web-1", 17, 0.5),
        logging.DEBUG,
    ),
    (
        "lost",
        lambda o: o.lost("feeds", 17, 40.0, "expired"),
        Lost("feeds", "web-1", 17, 40.0, "expired"),
        logging.WARNING,
    ),
    (
        "renewed",
        lambda o: o.renewed(1000, 0.02),
        Renewed("web-1", 1000, 0.02),
        logging.DEBUG,
    ),
    (
        "renewal failed",
        lambda o: o.renewal_failed(BROKEN),
        RenewalFailed("web-1", BROKEN),
        logging.WARNING,
    ),
    (
        "reconnected",
        lambda o: o.reconnected("listener"),
        Reconnected("web-1", "listener"),
        logging.INFO,
    ),
]

EACH = pytest.mark.parametrize(("call", "event", "level"), [row[1:] for row in TOLD], ids=[row[0] for row in TOLD])


def after(*calls: Call) -> Snapshot:
    observer = Observer("web-1")
    for call in calls:
        call(observer)
    return observer.metrics.snapshot()


def changed(snapshot: Snapshot) -> dict[str, Any]:
    """Return the metrics that differ from those of a new process; of labelled counters, those that are not 0."""
    before = Metrics().snapshot()
    found = {measure.field: getattr(snapshot, measure.field) for measure in MEASURES}
    found = {name: value for name, value in found.items() if value != getattr(before, name)}
    return {name: _not_zero(value) if isinstance(value, dict) else value for name, value in found.items()}


def _not_zero(counter: dict[str, int]) -> dict[str, int]:
    return {label: number for label, number in counter.items() if number}


@EACH
def test_the_hook_is_called(call: Call, event: Event, level: int) -> None:
    told: list[Event] = []
    call(Observer("web-1", told.append))
    assert told == [event]


@EACH
def test_a_line_is_logged_at_its_level(call: Call, event: Event, level: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, module.__name__)
    call(Observer("web-1"))
    (record,) = caplog.records
    assert record.levelno == level
    assert vars(record)["event"] == f"lease.{event.kind}"
    assert event.facts().items() <= vars(record).items()


def test_every_kind_of_event_is_sent_by_a_call() -> None:
    defined = {each for _, each in inspect.getmembers(events, inspect.isclass) if issubclass(each, Event)} - {Event}
    assert set(events.KINDS) == defined == {type(event) for _, _, event, _ in TOLD}
    assert len({each.kind for each in events.KINDS}) == len(events.KINDS)


def test_a_line_names_lease_holder_and_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, module.__name__)
    observer = Observer("web-1")
    observer.waiting("feeds", "web-2", 16)
    observer.granted("feeds", 17, 0.0123456789, 2)
    observer.not_acquired("mail", 5.0, 3, "timeout", "web-2", 9)
    observer.released("feeds", 17, 3.0)
    assert caplog.messages == [
        "lease.waiting lease=feeds holder=web-2 token=16 waiter=web-1 waited=0.0",
        "lease.acquired lease=feeds holder=web-1 token=17 waited=0.012346 attempts=2",
        "lease.not_acquired lease=mail holder=web-2 token=9 waiter=web-1 waited=5.0 attempts=3 reason=timeout",
        "lease.released lease=feeds holder=web-1 token=17 held=3.0",
    ]


def test_unknown_facts_are_not_logged() -> None:
    assert Waiting("feeds", None, None, "web-1", 0.0).facts() == {"lease": "feeds", "waiter": "web-1", "waited": 0.0}


def test_an_event_cannot_be_changed() -> None:
    event = Released("feeds", "web-1", 17, 0.5)
    with pytest.raises(FrozenInstanceError):
        event.token = 18  # type: ignore[misc]
    assert not hasattr(event, "__dict__")


def test_an_event_can_be_matched() -> None:
    match Lost("feeds", "web-1", 17, 40.0, "broken"):
        case Lost(name=name, why="broken"):
            assert name == "feeds"
        case other:
            pytest.fail(str(other))


@pytest.mark.parametrize("call", [row[1] for row in TOLD[:9]], ids=[row[0] for row in TOLD[:9]])
def test_no_event_is_made_without_a_hook_or_log_level_that_needs_it(
    call: Call, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, module.__name__)
    monkeypatch.setattr(Observer, "_emit", lambda *_: pytest.fail("made for nobody"))
    call(Observer("web-1"))


def test_a_cycle_is_counted() -> None:
    snapshot = after(lambda o: o.granted("feeds", 17, 0.002, 1), lambda o: o.released("feeds", 17, 0.5))
    figures = changed(snapshot)
    assert figures.keys() == {"acquires", "acquire_wait", "acquire_attempts", "hold", "releases"}
    assert (figures["acquires"], figures["releases"], snapshot.held) == ({"acquired": 1}, 1, 0)
    assert (snapshot.acquire_wait.count, snapshot.acquire_wait.total) == (1, 0.002)
    assert (snapshot.hold.count, snapshot.hold.total) == (1, 0.5)
    assert dict(snapshot.acquire_attempts.cumulative())["1.0"] == 1


def test_a_wait_is_counted_while_it_lasts() -> None:
    begin: Call = lambda o: o.waiting("feeds", "web-2")  # noqa: E731
    again: Call = lambda o: o.still_waiting("feeds", "web-2", 3.0)  # noqa: E731
    assert changed(after(begin, begin, again)) == {"waits": 2, "waiters": 2}
    assert changed(after(begin, again, Observer.stopped_waiting)) == {"waits": 1}


@pytest.mark.parametrize("reason", get_args(Reason))
def test_an_acquire_without_a_lease_is_counted_by_its_reason(reason: Reason) -> None:
    assert changed(after(lambda o: o.not_acquired("feeds", 5.0, 2, reason))) == {"acquires": {reason: 1}}


def test_an_outcome_is_a_grant_or_a_reason() -> None:
    assert {*get_args(Outcome)} == {"acquired", *get_args(Reason)}


@pytest.mark.parametrize(
    ("end", "counted"),
    [
        (lambda o: o.released("feeds", 17, 2.0), {"releases": 1}),
        (lambda o: o.handed_over("feeds", 17, 2.0), {"hand_overs": 1}),
        (lambda o: o.lost("feeds", 17, 2.0, "clock"), {"losses": {"clock": 1}}),
    ],
)
def test_every_end_of_a_grant_reduces_the_number_held(end: Call, counted: dict[str, Any]) -> None:
    held = after(lambda o: o.granted("feeds", 17, 0.0, 1))
    ended = after(lambda o: o.granted("feeds", 17, 0.0, 1), end)
    assert (held.held, ended.held, ended.hold.total) == (1, 0, 2.0)
    assert counted.items() <= changed(ended).items()


def test_renewals_and_their_failures_are_counted() -> None:
    snapshot = after(
        lambda o: o.renewed(1000, 0.02),
        lambda o: o.renewed(500, 0.01),
        lambda o: o.renewal_failed(BROKEN),
        lambda o: o.database_error(BROKEN),
        lambda o: o.reconnected("listener"),
    )
    figures = changed(snapshot)
    assert figures.pop("renewal_duration").count == 2
    assert figures == {
        "renewal_rounds": {"done": 2, "failed": 1},
        "renewed_leases": 1500,
        "database_errors": {"ConnectionLost": 2},
        "reconnects": {"listener": 1},
    }


def test_a_value_equal_to_a_bound_counts_below_it_and_one_above_all_is_kept() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.0, 1.0, 1.5, 2.0, 9.0):
        histogram.observe(value)
    found = histogram.distribution()
    assert found.counts == (2, 2, 1)
    assert found.cumulative() == [("1.0", 2), ("2.0", 4), ("+Inf", 5)]
    assert (found.count, found.total) == (5, 13.5)


def test_the_histograms_have_the_bounds_of_the_catalogue() -> None:
    for measure in MEASURES:
        if measure.kind == "histogram":
            assert getattr(Metrics(), measure.field).bounds == measure.bounds == tuple(sorted(measure.bounds))


def test_a_snapshot_does_not_change() -> None:
    observer = Observer("web-1")
    before = observer.metrics.snapshot()
    observer.granted("feeds", 17, 0.0, 1)
    observer.lost("feeds", 17, 1.0, "expired")
    assert changed(before) == {}


def test_another_thread_may_read_while_metrics_are_written() -> None:
    observer, written = Observer("web-1"), threading.Event()

    def write() -> None:
        for number in range(20_000):
            observer.granted("feeds", number, 0.001, 1)
            observer.metrics.reconnects[str(number % 3000)] += 1  # a dictionary that grows while it is read
        written.set()

    writer = threading.Thread(target=write)
    writer.start()
    counts = [0]
    while not written.is_set():
        counts.append(observer.metrics.snapshot().acquire_wait.count)
    writer.join()
    assert counts == sorted(counts)
    assert observer.metrics.snapshot().acquires["acquired"] == 20_000


@pytest.mark.parametrize("error", [ValueError("no such queue"), CancelledError()], ids=repr)
def test_a_hook_that_fails_is_logged_and_costs_nothing(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    def on_event(event: Event) -> None:
        raise error

    caplog.set_level(logging.INFO, module.__name__)
    observer = Observer("web-1", on_event)
    for token in range(10):
        observer.granted("feeds", token, 0.0, 1)
    assert caplog.messages == [f"lease.hook_failed kind=acquired failures={count}" for count in (1, 2, 4, 8)]
    assert all(record.exc_info and record.exc_info[1] is error for record in caplog.records)
    snapshot = observer.metrics.snapshot()
    assert (snapshot.hook_errors, snapshot.held) == (10, 10)


def test_a_keyboard_interrupt_in_a_hook_is_not_swallowed() -> None:
    def on_event(event: Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Observer("web-1", on_event).granted("feeds", 17, 0.0, 1)


def test_a_log_filter_that_fails_costs_nothing() -> None:
    def refuse(record: logging.LogRecord) -> bool:
        raise ValueError("no such field")

    logger = logging.getLogger(module.__name__)
    logger.addFilter(refuse)
    try:
        Observer("web-1").lost("feeds", 17, 1.0, "expired")
    finally:
        logger.removeFilter(refuse)


class Listener:
    async def __call__(self, event: Event) -> None: ...


async def listen(event: Event) -> None: ...


@pytest.mark.parametrize("on_event", [listen, Listener()], ids=["function", "object"])
def test_a_coroutine_function_as_hook_is_refused(on_event: Any) -> None:
    with pytest.raises(ConfigurationError, match="coroutine function"):
        Observer("web-1", on_event)


def test_a_hook_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="on_event is 'print'"):
        Observer("web-1", "print")  # type: ignore[arg-type]


def test_no_optional_package_is_imported() -> None:
    code = "import sys, interlock.coordination.observation.observer; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not [name for name in loaded if name.partition(".")[0] in ("prometheus_client", "opentelemetry")]


def test_the_cost_of_observing_a_cycle(record_property: Callable[[str, object], None]) -> None:
    observer = Observer("web-1")

    def cycle() -> None:
        observer.granted("feeds", 17, 0.002, 1)
        observer.released("feeds", 17, 0.5)

    best = min(timeit.repeat(cycle, number=5000, repeat=5)) / 5000
    record_property("figure", f"observing an acquire and a release: {best * 1e6:.2f} µs")
    assert observer.metrics.snapshot().held == 0


def test_metrics_and_snapshot_have_the_same_fields() -> None:
    assert sorted(Metrics.__slots__) == sorted(measure.field for measure in MEASURES)
