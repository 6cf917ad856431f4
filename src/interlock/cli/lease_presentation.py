"""The status of leases and of their waiters, as text and as JSON."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from interlock.cli.output import duration_text, escaped, time_text
from interlock.cli.terminal import GAP, shortened, table_text
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
from interlock.coordination.operators.waits import Wait, cycles

_COLUMNS = ("NAME", "STATE", "HOLDER", "SINCE", "REMAINING", "WAITERS")
_HOLDER = _COLUMNS.index("HOLDER")
_SHORTEST_HOLDER = 16
_USUAL_WIDTH = 100


def lease_as_json(lease: LeaseStatus) -> dict[str, Any]:
    """Returns the lease's facts. The `holder` of a free lease is None; `last_holder` is the holder it had last."""
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


def details_as_json(found: LeaseDetails) -> dict[str, Any]:
    return lease_as_json(found.lease) | {
        "waiting": None if found.waiting is None else [_flat(waiter) for waiter in found.waiting],
        "guards": found.guards,
        "intervention": found.intervention,
    }


def broken_as_json(broken: Broken) -> dict[str, Any]:
    return {
        "name": broken.name,
        "token": broken.token,
        "last_holder": broken.party,
        "remaining": broken.remaining,
        "terminated": broken.terminated,
    }


def leases_as_table(leases: Sequence[LeaseStatus], width: int | None) -> str:
    """Returns a table of at most `width` columns (None means 100), unless the leases' names are longer."""
    rows = list(map(_row, leases))
    longest = [max(map(len, column)) for column in zip(_COLUMNS, *rows, strict=True)]
    others = sum(longest) - longest[_HOLDER] + len(GAP) * (len(_COLUMNS) - 1)
    room = max((width or _USUAL_WIDTH) - others, _SHORTEST_HOLDER)
    short = [(*row[:_HOLDER], shortened(row[_HOLDER], room), *row[_HOLDER + 1 :]) for row in rows]
    return table_text(_COLUMNS, short, width)


def lease_as_text(found: LeaseDetails) -> str:
    return "\n".join(
        [*_state(found), *_intervention(found.intervention), *map(_guard, found.guards), *_queue(found.waiting)]
    )


def broken_as_text(broken: Broken, *, immediate: bool) -> str:
    return "\n".join(_consequences(broken, immediate=immediate))


def waits_as_json(waits: Sequence[Wait]) -> dict[str, Any]:
    return {
        "waits": list(map(_wait_facts, waits)),
        "cycles": [list(map(_wait_facts, cycle)) for cycle in cycles(waits)],
    }


def waits_as_text(waits: Sequence[Wait]) -> str:
    lines = [*map(_wait_line, waits), *(line for cycle in cycles(waits) for line in _cycle_lines(cycle))]
    return "\n".join(lines) or "No process waits for a lease."


def _holder(holding: Holding | None) -> dict[str, Any] | None:
    return None if holding is None else _flat(holding)


def _flat(of: Holding | Waiter) -> dict[str, Any]:
    """Returns the facts of the holding or waiter and those of its party in one mapping."""
    return vars(of.party) | {name: value for name, value in vars(of).items() if name != "party"}


def _row(lease: LeaseStatus) -> tuple[str, ...]:
    holding = lease.holding
    return (
        escaped(lease.name),
        lease.state,
        _named(holding.party) if holding else "",
        f"{duration_text(lease.since(holding.acquired_at))} ago" if holding else "",
        "" if lease.state == "free" else duration_text(lease.remaining),
        "?" if lease.waiters is None else str(lease.waiters),
    )


def _state(found: LeaseDetails) -> Iterator[str]:
    lease, last = found.lease, found.lease.last
    if last is None:
        yield f"The lease {_quoted(lease.name)} is free, and was never held."
    elif lease.state == "held":
        yield from _held(lease, last)
    elif lease.state == "broken":
        yield from _broken(lease, last, known=found.intervention is not None)
    else:
        yield from _free(lease, last, guarded=bool(found.guards))


def _held(lease: LeaseStatus, holding: Holding) -> Iterator[str]:
    held_for, last_renewed = (
        duration_text(lease.since(holding.acquired_at)),
        duration_text(lease.since(holding.renewed_at)),
    )
    yield f"The lease {_quoted(lease.name)} is held by {_party_text(holding.party)}."
    yield f"It has held it since {time_text(holding.acquired_at)}, for {held_for} now, with the token {lease.token}."
    yield (
        f"Its last heartbeat came {last_renewed} ago; "
        f"without another the lease expires in {duration_text(lease.remaining)} (its ttl is {holding.ttl:g} s)."
    )
    if holding.metadata is not None:
        yield f"Its metadata: {escaped(json.dumps(holding.metadata, ensure_ascii=False))}"


def _broken(lease: LeaseStatus, holding: Holding, *, known: bool) -> Iterator[str]:
    why = "" if known else ", by force or because another server took over the database"
    yield f"The lease {_quoted(lease.name)} was taken from {_party_text(holding.party)}{why}."
    left = duration_text(lease.remaining)
    if known:
        yield f"The next waiter gets it once that holder has released it, and in {left} at the latest."
    else:
        yield f"It is free in {left} at the latest: until then its last holder may trust it."


def _free(lease: LeaseStatus, holding: Holding, *, guarded: bool) -> Iterator[str]:
    but = ", but a transaction still guards it: the next holder gets it when that has ended" if guarded else ""
    yield f"The lease {_quoted(lease.name)} is free{but}."
    last_renewed = time_text(holding.renewed_at)
    yield f"It was last held by {_party_text(holding.party)}, whose last heartbeat came at {last_renewed}."
    if lease.expires_at:
        yield f"It expired {duration_text(lease.since(lease.expires_at))} ago: that holder did not release it."


def _intervention(intervention: Intervention | None) -> Iterator[str]:
    if intervention:
        reason = f": {escaped(intervention.reason)}" if intervention.reason else ", without a reason."
        yield f"It was broken at {time_text(intervention.done_at)} by {escaped(intervention.done_by)}{reason}"


def _guard(guard: Guard) -> str:
    known = [
        guard.role and f"role {escaped(guard.role)}",
        guard.application and escaped(guard.application),
        guard.state,
        None if guard.open_for is None else f"open for {duration_text(guard.open_for)}",
    ]
    facts = ", ".join(filter(None, known)) or "of another role"
    return f"A transaction of server process {guard.pid} guards it ({facts})."


def _queue(waiting: Sequence[Waiter] | None) -> Iterator[str]:
    if waiting is None:
        yield "Its waiters are not known: this database keeps no queue."
        return
    if not waiting:
        yield "No process waits for it."
        return
    yield "1 process waits for it:" if len(waiting) == 1 else f"{len(waiting)} processes wait for it, in this order:"
    for place, waiter in enumerate(waiting, 1):
        yield f"{place:>4}. {_party_text(waiter.party)}{_waited(waiter.waited)}"


def _consequences(broken: Broken, *, immediate: bool) -> Iterator[str]:
    yield f"The lease {_quoted(broken.name)} was taken from {_party_text(broken.party)}."
    if broken.terminated:
        ended = ", ".join(map(str, broken.terminated))
        yield f"Ended, with their transactions that guarded it: server process {ended}."
    yield "Its holder is notified at its next renewal, and has to stop then."
    if immediate:
        yield "The next waiter gets it at once; of what that holder does until then, only guarded writes are refused."
    elif broken.remaining:
        left = duration_text(broken.remaining)
        yield f"The next waiter gets it once that holder has released it, and in {left} at the latest."


def _waited(waited: float | None) -> str:
    """Returns the end of a sentence: the time that the waiter has waited; empty if the time is not known."""
    return "" if waited is None else f", for {duration_text(waited)}"


def _party_text(party: Party) -> str:
    """Returns the name that the process gave itself, with its pid and host."""
    pid = None if party.pid is None else f"process {party.pid}"
    host = party.host and f"on {escaped(party.host)}"
    place = " ".join(filter(None, (pid, host)))
    return f"{_named(party)} ({place})" if place else _named(party)


def _named(party: Party) -> str:
    return escaped(party.name) if party.name else "a process without a name"


def _quoted(name: str) -> str:
    return f"'{escaped(name)}'"


def _wait_facts(wait: Wait) -> dict[str, Any]:
    return {
        "lease": wait.lease,
        "waiter": wait.waiter,
        "holder": wait.holder,
        "waited": wait.waited,
    }


def _wait_line(wait: Wait) -> str:
    awaited = "its turn" if wait.holder is None else _party_text(wait.holder)
    return f"{_quoted(wait.lease)}: {_party_text(wait.waiter)} waits for {awaited}{_waited(wait.waited)}"


def _cycle_lines(cycle: Sequence[Wait]) -> Iterator[str]:
    yield (
        f"{len(cycle)} processes wait in a circle. If it is the same task in each of them, they wait without end: "
        "end one of them, or take a lease from it with `interlock lease break`; then take these leases in one order."
    )
    for wait in cycle:
        assert wait.holder is not None
        yield f"    {_party_text(wait.waiter)} waits for {_quoted(wait.lease)}, which {_party_text(wait.holder)} holds"
