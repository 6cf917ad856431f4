"""Counters and histograms of a process's leases, in plain Python: whoever collects metrics picks them up from here.

The engine's one thread writes, without a lock, on the way of every acquire. Anybody may read, from any thread:
`Metrics.snapshot()` copies each figure whole. Two figures of a snapshot may be one lease apart.

What there is stands in `Snapshot` and nowhere else; the adapters in `interlock.integrations` follow from it. No figure
is kept for each lease: names are the user's data, and there may be millions.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import Any, Literal, Protocol, get_args

from interlock.coordination.reasons import Loss

Outcome = Literal["acquired", "busy", "timeout", "cancelled", "error"]


@dataclass(frozen=True, slots=True)
class Distribution:
    """`counts` says how many were at most each bound, and above the one before; its last, how many exceeded all."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, int]]:
        """As Prometheus wants them: upper bound in words, and how many were at most that."""
        return list(zip([*map(str, self.bounds), "+Inf"], accumulate(self.counts), strict=True))


Kind = Literal["counter", "gauge", "histogram"]
Unit = Literal["s", "1"]


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure as collectors know it: ``interlock.`` and `name`, in seconds or plain numbers.

    A counter may be split by `label`; a histogram has the upper `bounds` of its buckets.
    """

    field: str
    kind: Kind
    name: str
    about: str
    label: str | None
    unit: Unit
    bounds: tuple[float, ...]


def _counter(name: str, about: str, label: str | None = None) -> Any:
    return _measure("counter", name, about, label=label)


def _gauge(name: str, about: str) -> Any:
    return _measure("gauge", name, about)


def _histogram(name: str, about: str, unit: Unit, bounds: tuple[float, ...]) -> Any:
    return _measure("histogram", name, about, unit=unit, bounds=bounds)


def _measure(
    kind: Kind, name: str, about: str, *, label: str | None = None, unit: Unit = "1", bounds: tuple[float, ...] = ()
) -> Any:
    return field(metadata={"kind": kind, "name": name, "about": about, "label": label, "unit": unit, "bounds": bounds})


_QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_PATIENT = (*_QUICK, 30.0, 60.0, 300.0, 1800.0)
_LONG = (*_QUICK, 60.0, 600.0, 3600.0, 21600.0, 86400.0)
_FEW = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All figures at one moment. Counters only grow; they begin at 0 with the process."""

    acquires: Mapping[str, int] = _counter("lease.acquires", "Acquires that ended, by outcome.", "outcome")
    acquire_wait: Distribution = _histogram(
        "lease.acquire.wait", "From the call to the grant, of acquires that got the lease.", "s", _PATIENT
    )
    acquire_attempts: Distribution = _histogram(
        "lease.acquire.attempts", "How often those had to ask; 1 means that nothing was retried.", "1", _FEW
    )
    waits: int = _counter("lease.waits", "Acquires that found the lease taken, and queued.")
    waiters: int = _gauge("lease.waiters", "Acquires of this process that are queued now.")
    held: int = _gauge("lease.held", "Leases that this process holds now.")
    hold: Distribution = _histogram(
        "lease.hold", "How long a lease was held, until it was released, handed over or lost.", "s", _LONG
    )
    releases: int = _counter("lease.releases", "Leases given back.")
    hand_overs: int = _counter("lease.hand_overs", "Leases handed over to the next in the queue.")
    losses: Mapping[str, int] = _counter("lease.losses", "Leases lost, by reason.", "reason")
    renewal_rounds: Mapping[str, int] = _counter(
        "lease.renewal.rounds", "Rounds that renew every lease that is due, by outcome.", "outcome"
    )
    renewed_leases: int = _counter("lease.renewals", "Leases renewed in those rounds.")
    renewal_duration: Distribution = _histogram(
        "lease.renewal.duration", "How long a round that succeeded took.", "s", _QUICK
    )
    reconnects: Mapping[str, int] = _counter(
        "lease.reconnects", "Connections that ended and were made again, by what they are for.", "what"
    )
    database_errors: Mapping[str, int] = _counter(
        "lease.database.errors", "Errors of the database, by their class in interlock.errors.", "error"
    )
    hook_errors: int = _counter("lease.hook.errors", "Exceptions that came out of on_event.")


MEASURES: tuple[Measure, ...] = tuple(Measure(field=each.name, **each.metadata) for each in fields(Snapshot))


class Histogram:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def distribution(self) -> Distribution:
        return Distribution(self.bounds, tuple(self.counts), self.total)


class Metrics:
    """The figures as the engine's observer keeps them, under the names that they have in `Snapshot`."""

    __slots__ = tuple(measure.field for measure in MEASURES)

    def __init__(self) -> None:
        # What is known beforehand is there from the start: a series that begins with its first loss has no rate.
        self.acquires: Counter[str] = Counter(dict.fromkeys(get_args(Outcome), 0))
        self.losses: Counter[str] = Counter(dict.fromkeys(get_args(Loss), 0))
        self.renewal_rounds: Counter[str] = Counter({"done": 0, "failed": 0})
        self.reconnects: Counter[str] = Counter()
        self.database_errors: Counter[str] = Counter()
        self.acquire_wait = Histogram(_PATIENT)
        self.acquire_attempts = Histogram(_FEW)
        self.hold = Histogram(_LONG)
        self.renewal_duration = Histogram(_QUICK)
        self.waits = self.waiters = self.held = self.releases = self.hand_overs = 0
        self.renewed_leases = self.hook_errors = 0

    def snapshot(self) -> Snapshot:
        return Snapshot(**{measure.field: _copied(getattr(self, measure.field)) for measure in MEASURES})


def _copied(figure: "Counter[str] | Histogram | int") -> Any:
    if isinstance(figure, Histogram):
        return figure.distribution()
    return figure if isinstance(figure, int) else dict(figure)


class Measured(Protocol):
    """What the adapters take: `Interlock` and `AsyncInterlock` are, and so is whatever shows their metrics."""

    @property
    def metrics(self) -> Metrics: ...
