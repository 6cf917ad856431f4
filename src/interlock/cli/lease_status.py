"""A lease's status, for eyes and for programs."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from interlock.cli.facts import moment, shown, spoken
from interlock.cli.table import GAP, fitting, shortened
from interlock.coordination.operators.status import (
    Broken,
    Guard,
    Holding,
    Intervention,
    LeaseDetails,
    LeaseStatus,
    Party,
    Waiter,
)

_COLUMNS = ("NAME", "STATE", "HOLDER", "SINCE", "REMAINING", "WAITERS")
_HOLDER = _COLUMNS.index("HOLDER")
_SHORTEST_HOLDER = 16
_USUAL_WIDTH = 100


def as_facts(lease: LeaseStatus) -> dict[str, Any]:
    """For JSON. The last holder of a free lease is under `last_holder` alone, and not taken for the holder."""
    return {
        "name": lease.name,
        "state": lease.state,
        "token": lease.token,
        "holder": _holder(lease.holding),
        "last_holder": _holder(lease.last),
        "expires_at": lease.expires_at,
        "remaining": lease.remaining,
        "waiters": lease.waiters,
        "seen_at": lease.seen_at,
    }


def details_as_facts(found: LeaseDetails) -> dict[str, Any]:
    return as_facts(found.lease) | {
        "waiting": None if found.waiting is None else [_flat(waiter) for waiter in found.waiting],
        "guards": found.guards,
        "intervention": found.intervention,
    }


def broken_as_facts(broken: Broken) -> dict[str, Any]:
    return {
        "name": broken.name,
        "token": broken.token,
        "last_holder": broken.party,
        "remaining": broken.remaining,
        "terminated": broken.terminated,
    }


def as_table(leases: Sequence[LeaseStatus], width: int | None) -> str:
    """In at most `width` columns, or 100 where the output is no terminal, as far as the names allow that."""
    rows = list(map(_row, leases))
    longest = [max(map(len, column)) for column in zip(_COLUMNS, *rows, strict=True)]
    others = sum(longest) - longest[_HOLDER] + len(GAP) * (len(_COLUMNS) - 1)
    room = max((width or _USUAL_WIDTH) - others, _SHORTEST_HOLDER)
    short = [(*row[:_HOLDER], shortened(row[_HOLDER], room), *row[_HOLDER + 1 :]) for row in rows]
    return fitting(_COLUMNS, short, width)


def as_text(found: LeaseDetails) -> str:
    """In sentences."""
    return "\n".join(
        [*_state(found), *_told(found.intervention), *map(_guarding, found.guards), *_queue(found.waiting)]
    )


def broken_as_text(broken: Broken, *, immediate: bool) -> str:
    return "\n".join(_consequences(broken, immediate=immediate))


def _holder(holding: Holding | None) -> dict[str, Any] | None:
    return None if holding is None else _flat(holding)


def _flat(of: Holding | Waiter) -> dict[str, Any]:
    """Its facts, those of its party among them."""
    return vars(of.party) | {name: value for name, value in vars(of).items() if name != "party"}


def _row(lease: LeaseStatus) -> tuple[str, ...]:
    holding = lease.holding
    return (
        shown(lease.name),
        lease.state,
        _named(holding.party) if holding else "",
        f"{spoken(lease.since(holding.acquired_at))} ago" if holding else "",
        "" if lease.state == "free" else spoken(lease.remaining),
        "?" if lease.waiters is None else str(lease.waiters),
    )


def _state(found: LeaseDetails) -> Iterator[str]:
    lease, last = found.lease, found.lease.last
    if last is None:
        yield f"The lease {quoted(lease.name)} is free, and nobody has held it yet."
    elif lease.state == "held":
        yield from _held(lease, last)
    elif lease.state == "broken":
        yield from _broken(lease, last, known=found.intervention is not None)
    else:
        yield from _free(lease, last, guarded=bool(found.guards))


def _held(lease: LeaseStatus, holding: Holding) -> Iterator[str]:
    held_for, heard_of = spoken(lease.since(holding.acquired_at)), spoken(lease.since(holding.renewed_at))
    yield f"The lease {quoted(lease.name)} is held by {called(holding.party)}."
    yield f"It has held it since {moment(holding.acquired_at)}, for {held_for} now, with the token {lease.token}."
    yield (
        f"Its last heartbeat came {heard_of} ago; without another the lease expires in {spoken(lease.remaining)} "
        f"(its ttl is {holding.ttl:g} s)."
    )
    if holding.metadata is not None:
        yield f"It says of itself: {shown(json.dumps(holding.metadata, ensure_ascii=False))}"


def _broken(lease: LeaseStatus, holding: Holding, *, known: bool) -> Iterator[str]:
    why = "" if known else ", by force or because another server took over the database"
    yield f"The lease {quoted(lease.name)} was taken from {called(holding.party)}{why}."
    left = spoken(lease.remaining)
    if known:
        yield f"The next waiter gets it once that holder has released it, and in {left} at the latest."
    else:
        yield f"It is free in {left} at the latest: until then its last holder may trust it."


def _free(lease: LeaseStatus, holding: Holding, *, guarded: bool) -> Iterator[str]:
    but = ", but nobody gets it before the transaction that still guards it has ended" if guarded else ""
    yield f"The lease {quoted(lease.name)} is free{but}."
    yield f"It was last held by {called(holding.party)}, whose last heartbeat came at {moment(holding.renewed_at)}."
    if lease.expires_at:
        yield f"It expired {spoken(lease.since(lease.expires_at))} ago: that holder did not give it back."


def _told(intervention: Intervention | None) -> Iterator[str]:
    if intervention:
        reason = f": {shown(intervention.reason)}" if intervention.reason else ", who gave no reason."
        yield f"It was broken at {moment(intervention.done_at)} by {shown(intervention.done_by)}{reason}"


def _guarding(guard: Guard) -> str:
    told = [
        guard.role and f"role {shown(guard.role)}",
        guard.application and shown(guard.application),
        guard.state,
        None if guard.open_for is None else f"open for {spoken(guard.open_for)}",
    ]
    facts = ", ".join(filter(None, told)) or "of another role"
    return f"A transaction of server process {guard.pid} guards it ({facts})."


def _queue(waiting: Sequence[Waiter] | None) -> Iterator[str]:
    if waiting is None:
        yield "Who waits for it cannot be told: this database keeps no queue."
        return
    if not waiting:
        yield "Nobody waits for it."
        return
    yield "1 waits for it:" if len(waiting) == 1 else f"{len(waiting)} wait for it, in this order:"
    for place, waiter in enumerate(waiting, 1):
        yield f"{place:>4}. {called(waiter.party)}{for_so_long(waiter.waited)}"


def _consequences(broken: Broken, *, immediate: bool) -> Iterator[str]:
    yield f"The lease {quoted(broken.name)} was taken from {called(broken.party)}."
    if broken.terminated:
        ended = ", ".join(map(str, broken.terminated))
        yield f"Ended, with their transactions that guarded it: server process {ended}."
    yield "Its holder is told at its next renewal, and stops."
    if immediate:
        yield "The next waiter gets it at once; of what that holder does until then, only guarded writes are refused."
    elif broken.remaining:
        left = spoken(broken.remaining)
        yield f"The next waiter gets it once that holder has released it, and in {left} at the latest."


def for_so_long(waited: float | None) -> str:
    """At the end of what is said of a waiter, if it is known."""
    return "" if waited is None else f", for {spoken(waited)}"


def called(party: Party) -> str:
    """In a sentence: what it calls itself, and where it is to be found."""
    pid = None if party.pid is None else f"process {party.pid}"
    host = party.host and f"on {shown(party.host)}"
    place = " ".join(filter(None, (pid, host)))
    return f"{_named(party)} ({place})" if place else _named(party)


def _named(party: Party) -> str:
    return shown(party.name) if party.name else "somebody without a name"


def quoted(name: str) -> str:
    return f"'{shown(name)}'"
