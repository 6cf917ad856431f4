"""Which figures of a process's leases there are, and how collectors know them.

What there is stands in `Snapshot` and nowhere else; the adapters in `interlock.integrations` follow from it. No figure
is kept for each lease: names are the user's data, and there may be millions. `metrics` counts, and needs nothing of
this until they are collected.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import accumulate
from typing import Any, Literal

from interlock.coordination.observation.metrics import FEW, LONG, PATIENT, QUICK


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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All figures at one moment. Counters only grow; they begin at 0 with the process."""

    acquires: Mapping[str, int] = _counter("lease.acquires", "Acquires that ended, by outcome.", "outcome")
    acquire_wait: Distribution = _histogram(
        "lease.acquire.wait", "From the call to the grant, of acquires that got the lease.", "s", PATIENT
    )
    acquire_attempts: Distribution = _histogram(
        "lease.acquire.attempts", "How often those had to ask; 1 means that nothing was retried.", "1", FEW
    )
    waits: int = _counter("lease.waits", "Acquires that found the lease taken, and queued.")
    waiters: int = _gauge("lease.waiters", "Acquires of this process that are queued now.")
    held: int = _gauge("lease.held", "Leases that this process holds now.")
    hold: Distribution = _histogram(
        "lease.hold", "How long a lease was held, until it was released, handed over or lost.", "s", LONG
    )
    releases: int = _counter("lease.releases", "Leases given back.")
    hand_overs: int = _counter("lease.hand_overs", "Leases handed over to the next in the queue.")
    losses: Mapping[str, int] = _counter("lease.losses", "Leases lost, by reason.", "reason")
    renewal_rounds: Mapping[str, int] = _counter(
        "lease.renewal.rounds", "Rounds that renew every lease that is due, by outcome.", "outcome"
    )
    renewed_leases: int = _counter("lease.renewals", "Leases renewed in those rounds.")
    renewal_duration: Distribution = _histogram(
        "lease.renewal.duration", "How long a round that succeeded took.", "s", QUICK
    )
    reconnects: Mapping[str, int] = _counter(
        "lease.reconnects", "Connections that ended and were made again, by what they are for.", "what"
    )
    database_errors: Mapping[str, int] = _counter(
        "lease.database.errors", "Errors of the database, by their class in interlock.errors.", "error"
    )
    hook_errors: int = _counter("lease.hook.errors", "Exceptions that came out of on_event.")


MEASURES: tuple[Measure, ...] = tuple(Measure(field=each.name, **each.metadata) for each in fields(Snapshot))
