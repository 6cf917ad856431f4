"""Who waits for whom, for eyes and for programs."""

from collections.abc import Iterator, Sequence
from typing import Any

from interlock.cli.lease_status import called, for_so_long, quoted
from interlock.coordination.operators.waits import Wait, cycles


def as_facts(waits: Sequence[Wait]) -> dict[str, Any]:
    return {"waits": list(map(_facts, waits)), "cycles": [list(map(_facts, cycle)) for cycle in cycles(waits)]}


def as_text(waits: Sequence[Wait]) -> str:
    return "\n".join([*map(_line, waits), *(line for cycle in cycles(waits) for line in _circle(cycle))]) or (
        "Nobody waits for a lease."
    )


def _facts(wait: Wait) -> dict[str, Any]:
    return {
        "lease": wait.lease,
        "waiter": wait.waiter,
        "holder": wait.holder,
        "waited": wait.waited,
    }


def _line(wait: Wait) -> str:
    whom = "its turn" if wait.holder is None else called(wait.holder)
    return f"{quoted(wait.lease)}: {called(wait.waiter)} waits for {whom}{for_so_long(wait.waited)}"


def _circle(cycle: Sequence[Wait]) -> Iterator[str]:
    yield (
        f"{len(cycle)} processes wait in a circle. If it is the same task in each of them, they wait for ever: "
        "end one of them, or take a lease from it with `interlock lease break`; then take these leases in one order."
    )
    for wait in cycle:
        assert wait.holder is not None
        yield f"    {called(wait.waiter)} waits for {quoted(wait.lease)}, which {called(wait.holder)} holds"
