"""Counters and histograms of a process's leases, in plain Python. Collectors of metrics read them from here.

Only the engine's thread writes them, without a lock, in every acquire. Any thread may read them: `Metrics.snapshot()`
copies each metric whole. Two metrics of one snapshot may differ by one lease.
"""

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from interlock.coordination.lease.reasons import Loss

if TYPE_CHECKING:
    from interlock.coordination.observation.metric_catalogue import Distribution, Snapshot

Outcome = Literal["acquired", "busy", "timeout", "cancelled", "error"]

DURATION_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
WAIT_BOUNDS = (*DURATION_BOUNDS, 30.0, 60.0, 300.0, 1800.0)
HOLD_BOUNDS = (*DURATION_BOUNDS, 60.0, 600.0, 3600.0, 21600.0, 86400.0)
ATTEMPT_BOUNDS = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)


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
    """The metrics that the engine's observer counts, under the same names as in `Snapshot`."""

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
        # Known labels start at 0: a series that begins with its first loss has no rate.
        self.acquires: Counter[str] = Counter(dict.fromkeys(get_args(Outcome), 0))
        self.losses: Counter[str] = Counter(dict.fromkeys(get_args(Loss), 0))
        self.renewal_rounds: Counter[str] = Counter({"done": 0, "failed": 0})
        self.reconnects: Counter[str] = Counter()
        self.database_errors: Counter[str] = Counter()
        self.acquire_wait = Histogram(WAIT_BOUNDS)
        self.acquire_attempts = Histogram(ATTEMPT_BOUNDS)
        self.hold = Histogram(HOLD_BOUNDS)
        self.renewal_duration = Histogram(DURATION_BOUNDS)
        self.waits = self.waiters = self.held = self.releases = self.hand_overs = 0
        self.renewed_leases = self.hook_errors = 0

    def snapshot(self) -> "Snapshot":
        from interlock.coordination.observation.metric_catalogue import (
            MEASURES,
            Snapshot,
        )  # imported here, because most commands never collect metrics

        return Snapshot(**{measure.field: _copied(getattr(self, measure.field)) for measure in MEASURES})


def _copied(metric: "Counter[str] | Histogram | int") -> Any:
    if isinstance(metric, Histogram):
        return metric.distribution()
    return metric if isinstance(metric, int) else dict(metric)


class Measured(Protocol):
    """The interface that the adapters need: an object with metrics, such as `Interlock`, `AsyncInterlock`, or an object
    that passes their metrics on."""

    @property
    def metrics(self) -> Metrics: ...
