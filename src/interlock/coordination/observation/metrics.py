"""Counters and histograms of a process's leases, in plain Python: whoever collects metrics picks them up from here.

The engine's one thread writes, without a lock, on the way of every acquire. Anybody may read, from any thread:
`Metrics.snapshot()` copies each figure whole. Two figures of a snapshot may be one lease apart.
"""

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from interlock.coordination.lease.reasons import Loss

if TYPE_CHECKING:
    from interlock.coordination.observation.metric_catalogue import Distribution, Snapshot

Outcome = Literal["acquired", "busy", "timeout", "cancelled", "error"]

QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
PATIENT = (*QUICK, 30.0, 60.0, 300.0, 1800.0)
LONG = (*QUICK, 60.0, 600.0, 3600.0, 21600.0, 86400.0)
FEW = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)


class Histogram:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def distribution(self) -> "Distribution":
        from interlock.coordination.observation.metric_catalogue import Distribution

        return Distribution(self.bounds, tuple(self.counts), self.total)


class Metrics:
    """The figures as the engine's observer keeps them, under the names that they have in `Snapshot`."""

    __slots__ = (
        "acquire_attempts",
        "acquire_wait",
        "acquires",
        "database_errors",
        "hand_overs",
        "held",
        "hold",
        "hook_errors",
        "losses",
        "reconnects",
        "releases",
        "renewal_duration",
        "renewal_rounds",
        "renewed_leases",
        "waiters",
        "waits",
    )

    def __init__(self) -> None:
        # What is known beforehand is there from the start: a series that begins with its first loss has no rate.
        self.acquires: Counter[str] = Counter(dict.fromkeys(get_args(Outcome), 0))
        self.losses: Counter[str] = Counter(dict.fromkeys(get_args(Loss), 0))
        self.renewal_rounds: Counter[str] = Counter({"done": 0, "failed": 0})
        self.reconnects: Counter[str] = Counter()
        self.database_errors: Counter[str] = Counter()
        self.acquire_wait = Histogram(PATIENT)
        self.acquire_attempts = Histogram(FEW)
        self.hold = Histogram(LONG)
        self.renewal_duration = Histogram(QUICK)
        self.waits = self.waiters = self.held = self.releases = self.hand_overs = 0
        self.renewed_leases = self.hook_errors = 0

    def snapshot(self) -> "Snapshot":
        from interlock.coordination.observation.metric_catalogue import (
            MEASURES,
            Snapshot,
        )  # here, because few commands are ever asked

        return Snapshot(**{measure.field: _copied(getattr(self, measure.field)) for measure in MEASURES})


def _copied(figure: "Counter[str] | Histogram | int") -> Any:
    if isinstance(figure, Histogram):
        return figure.distribution()
    return figure if isinstance(figure, int) else dict(figure)


class Measured(Protocol):
    """What the adapters take: `Interlock` and `AsyncInterlock` are, and so is whatever shows their metrics."""

    @property
    def metrics(self) -> Metrics: ...
