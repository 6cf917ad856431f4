"""Who waits for whom, across processes; and who waits in a circle.

What can be seen are processes. One that holds a lease with one task and waits for another with another task does not
stand still, so a circle of processes is a deadlock only if in each of them it is the same task.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from interlock.coordination.operators.status import Party, operations
from interlock.stores.postgres import Session


@dataclass(frozen=True)
class Wait:
    """`holder` is None while nobody has the lease: then it is just being given to the first who waits. `waited` is None
    where that is not kept."""

    lease: str
    waiter: Party
    holder: Party | None
    waited: float | None


async def read_waits(session: Session, schema: str) -> list[Wait]:
    """By lease, in the order of its queue."""
    return [
        Wait(
            row["name"],
            Party(row["waiter"], row["waiter_host"], row["waiter_pid"]),
            Party(row["holder"], row["host"], row["pid"]) if row["held"] else None,
            row["waited"],
        )
        for row in await session.fetch(operations(schema)["waits"])
    ]


def cycles(waits: Iterable[Wait]) -> list[tuple[Wait, ...]]:
    """Each circle once: the holder of each wait is the waiter of the next, and that of the last is the first's waiter.

    Of circles that share a wait, one is shown: when it is broken, the others show.
    """
    ahead: defaultdict[Party, list[Wait]] = defaultdict(list)
    for wait in waits:
        if wait.holder is not None and wait.holder != wait.waiter:  # who waits for itself has several tasks
            ahead[wait.waiter].append(wait)
    found: list[tuple[Wait, ...]] = []
    done: set[Party] = set()
    for start in list(ahead):
        found += _from(start, ahead, done)
    return found


def _from(start: Party, ahead: defaultdict[Party, list[Wait]], done: set[Party]) -> Iterable[tuple[Wait, ...]]:
    """Follow everybody from there, once."""
    path: list[Wait] = []
    todo = [(start, iter(_next(start, ahead, done)))]
    while todo:
        party, options = todo[-1]
        wait = next(options, None)
        if wait is None:
            done.add(party)
            todo.pop()
            if path:
                path.pop()
            continue
        assert wait.holder is not None
        on_the_way = [party for party, _ in todo]
        if wait.holder in on_the_way:
            place = on_the_way.index(wait.holder)
            yield (*path[place:], wait)
        elif wait.holder not in done:
            path.append(wait)
            todo.append((wait.holder, iter(_next(wait.holder, ahead, done))))


def _next(party: Party, ahead: defaultdict[Party, list[Wait]], done: set[Party]) -> Sequence[Wait]:
    return [] if party in done else ahead.get(party, [])
