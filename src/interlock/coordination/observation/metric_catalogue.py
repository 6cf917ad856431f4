"""The catalogue of a process's metrics, with the names that collectors use.

`Snapshot` is the only list of the metrics; the adapters in `interlock.integrations` are derived from it. There is no
metric per lease: the names of leases are the user's data, and there may be millions of them. The module `metrics`
counts, and imports this module only when the metrics are collected.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import Any, Literal

from interlock.coordination.observation.metrics import ATTEMPT_BOUNDS, DURATION_BOUNDS, HOLD_BOUNDS, WAIT_BOUNDS


@dataclass(frozen=True, slots=True)
class Distribution:
    """For each bound, `counts` has the number of values up to that bound and above the bound before it. Its last number
    counts the values above all bounds."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> list[tuple[str, int]]:
        """Return pairs for Prometheus: an upper bound as text, and the number of values up to it."""
        return list(zip([*map(str, self.bounds), "+Inf"], accumulate(self.counts), strict=True))


Kind = Literal["counter", "gauge", "histogram"]
Unit = Literal["s", "1"]


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric as collectors name it: ``interlock.`` followed by `name`. Its unit is seconds or a plain number.

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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All metrics at one moment. Counters only grow; they begin at 0 with the process."""

    acquires: Mapping[str, int] = _counter("lease.acquires", "Acquires that ended, by outcome.", "outcome")
    acquire_wait: Distribution = _histogram(
        "lease.acquire.wait", "Time from the call to the grant, of acquires that got the lease.", "s", WAIT_BOUNDS
    )
    acquire_attempts: Distribution = _histogram(
        "lease.acquire.attempts",
        "Requests sent by an acquire that got the lease; 1 means that the first request got it.",
        "1",
        ATTEMPT_BOUNDS,
    )
    waits: int = _counter("lease.waits", "Acquires that found the lease taken, and waited in the queue.")
    waiters: int = _gauge("lease.waiters", "Acquires of this process that wait in the queue now.")
    held: int = _gauge("lease.held", "Leases that this process holds now.")
    hold: Distribution = _histogram(
        "lease.hold", "Time for which a lease was held, until it was released, handed over or lost.", "s", HOLD_BOUNDS
    )
    releases: int = _counter("lease.releases", "Leases released.")
    hand_overs: int = _counter("lease.hand_overs", "Leases handed over to the next waiter.")
    losses: Mapping[str, int] = _counter("lease.losses", "Leases lost, by reason.", "reason")
    renewal_rounds: Mapping[str, int] = _counter(
        "lease.renewal.rounds", "Renewal rounds, by outcome. A round renews every lease that is due.", "outcome"
    )
    renewed_leases: int = _counter("lease.renewals", "Leases renewed by the rounds that succeeded.")
    renewal_duration: Distribution = _histogram(
        "lease.renewal.duration", "Duration of a renewal round that succeeded.", "s", DURATION_BOUNDS
    )
    reconnects: Mapping[str, int] = _counter(
        "lease.reconnects", "Connections that were lost and opened again, by their purpose.", "what"
    )
    database_errors: Mapping[str, int] = _counter(
        "lease.database.errors", "Errors of the database, by their class in interlock.errors.", "error"
    )
    hook_errors: int = _counter("lease.hook.errors", "Exceptions that on_event raised.")


MEASURES: tuple[Measure, ...] = tuple(Measure(field=each.name, **each.metadata) for each in fields(Snapshot))
