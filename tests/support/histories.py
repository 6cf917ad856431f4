"""The check of the leases of several processes, by the events that they recorded and the table that they wrote to.

A history without violations proves little if nothing happened in it: see `counts`.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeVar

from support.history_recorder import Event, Kind

Fault = Literal[
    "two trusted",  # two grants of one name were trusted at the same time
    "grant shared",  # one grant was given twice
    "token repeated",  # two grants of one name have the same token
    "token went back",  # a later grant has a lower token
    "write went back",  # a guarded write was committed after one with a higher token
    "write came late",  # a guarded write was committed after the next holder had read the table
    "write vanished",  # a committed write is missing
    "grant taken away",  # the row had another holder, or none, while its holder trusted it
    "lost for nothing",  # a holder lost its lease although it ran and the database answered all the time
]


@dataclass(frozen=True)
class Violation:
    fault: Fault
    name: str
    what: str


@dataclass(frozen=True)
class Write:
    """A row that a guarded transaction inserted; positions are given out in the order of the inserts."""

    name: str
    position: int
    token: int


@dataclass(frozen=True)
class Holding:
    """One grant, and the time in which its holder may have acted on it: none at all if `end` is not after `start`."""

    name: str
    token: int
    grant_id: str
    process: str
    start: float
    end: float

    @property
    def was_trusted(self) -> bool:
        return self.end > self.start

    def __str__(self) -> str:
        return f"{self.process}: token {self.token} from {self.start:.6f} to {self.end:.6f}"


def violations(events: Iterable[Event], writes: Iterable[Write] = (), *, calm: bool = False) -> list[Violation]:
    """All violations, whatever the order of `events` and `writes`.

    `calm`: no process was suspended or disconnected in this history, so no holder has a reason to lose a lease.
    """
    by_kind = _grouped((event.kind, event) for event in events)
    by_name = _grouped((holding.name, holding) for holding in _holdings(by_kind))
    written = _grouped((write.name, write) for write in sorted(writes, key=lambda write: write.position))
    found: list[Violation] = []
    for name, held in by_name.items():
        found += _shared(name, held)
        found += _overlapping(name, held)
        found += _tokens(name, held)
    for name, ordered in written.items():
        found += _writes_in_order(name, ordered)
    found += _late_writes(by_kind["looked"], written)
    found += _vanished_writes(by_kind["acknowledged"], written)
    found += _taken_away(by_kind["seen"], by_name)
    if calm:
        found += [
            Violation("lost for nothing", loss.name, f"{loss.process}: token {loss.token}") for loss in by_kind["lost"]
        ]
    return found


def holdings(events: Iterable[Event]) -> list[Holding]:
    """All grants in the history."""
    return list(_holdings(_grouped((event.kind, event) for event in events)))


def counts(events: Iterable[Event]) -> Counter[Kind]:
    """The number of events of each kind."""
    return Counter(event.kind for event in events)


def _holdings(by_kind: defaultdict[Kind, list[Event]]) -> Iterator[Holding]:
    """Trust lasts until the last promised moment, unless the holder gave it up before."""
    promised: dict[str, float] = {}
    for event in by_kind["granted"] + [event for event in by_kind["trusted"] if event.until > event.at]:
        promised[event.grant_id] = max(event.until, promised.get(event.grant_id, event.until))
    ended: dict[str, float] = {}
    for event in by_kind["ended"] + by_kind["lost"]:
        ended[event.grant_id] = min(event.at, ended.get(event.grant_id, event.at))
    for event in by_kind["granted"]:
        end = min(promised[event.grant_id], ended.get(event.grant_id, float("inf")))
        yield Holding(event.name, event.token, event.grant_id, event.process, event.at, end)


def _shared(name: str, held: Sequence[Holding]) -> Iterator[Violation]:
    for grant_id, same in _grouped((holding.grant_id, holding) for holding in held).items():
        if len(same) > 1:
            yield Violation("grant shared", name, f"{grant_id}: {_all(same)}")


def _overlapping(name: str, held: Sequence[Holding]) -> Iterator[Violation]:
    longest: Holding | None = None
    for holding in sorted((one for one in held if one.was_trusted), key=lambda one: one.start):
        if longest and holding.start < longest.end:
            yield Violation("two trusted", name, _all((longest, holding)))
        if longest is None or holding.end > longest.end:
            longest = holding


def _tokens(name: str, held: Sequence[Holding]) -> Iterator[Violation]:
    """A grant that was over before its holder received it has no place in the order, but has a token."""
    for token, same in _grouped((holding.token, holding) for holding in held).items():
        if len({holding.grant_id for holding in same}) > 1:
            yield Violation("token repeated", name, f"{token}: {_all(same)}")
    in_order = sorted((holding for holding in held if holding.was_trusted), key=lambda holding: holding.start)
    for earlier, later in pairwise(in_order):
        if later.token < earlier.token:
            yield Violation("token went back", name, _all((earlier, later)))


def _writes_in_order(name: str, ordered: Sequence[Write]) -> Iterator[Violation]:
    for earlier, later in pairwise(ordered):
        if later.token < earlier.token:
            yield Violation("write went back", name, f"{later} after {earlier}")


def _late_writes(looks: Iterable[Event], written: defaultdict[str, list[Write]]) -> Iterator[Violation]:
    tokens = {name: sorted(write.token for write in writes) for name, writes in written.items()}
    for look in looks:
        there = bisect_left(tokens.get(look.name, []), look.token)
        if there > look.number:
            yield Violation(
                "write came late", look.name, f"token {look.token} saw {look.number}, and {there} are there"
            )
        elif there < look.number:
            yield Violation("write vanished", look.name, f"token {look.token} saw {look.number}, and {there} are left")


def _vanished_writes(acknowledged: Iterable[Event], written: defaultdict[str, list[Write]]) -> Iterator[Violation]:
    there = {write for writes in written.values() for write in writes}
    for event in acknowledged:
        if (missing := Write(event.name, event.number, event.token)) not in there:
            yield Violation("write vanished", event.name, f"{missing} was acknowledged to {event.process}")


def _taken_away(seen: Iterable[Event], holdings: defaultdict[str, list[Holding]]) -> Iterator[Violation]:
    for name, looks in _grouped((look.name, look) for look in seen).items():
        begun: list[Holding] = []  # of which those that are over before the look are dropped, and do not come back
        ahead = sorted(holdings[name], key=lambda holding: holding.start, reverse=True)
        for look in sorted(looks, key=lambda look: look.at):
            while ahead and ahead[-1].start <= look.at:
                begun.append(ahead.pop())
            begun = [holding for holding in begun if holding.end >= look.at]
            for holding in begun:
                if look.until <= holding.end and holding.grant_id != look.grant_id:
                    row = look.grant_id or "no holder"
                    yield Violation("grant taken away", name, f"{holding}, and at {look.at:.6f} the row said {row}")


def _all(holdings: Iterable[Holding]) -> str:
    return "; ".join(map(str, holdings))


K = TypeVar("K")
V = TypeVar("V")


def _grouped(pairs: Iterable[tuple[K, V]]) -> defaultdict[K, list[V]]:
    groups: defaultdict[K, list[V]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups
