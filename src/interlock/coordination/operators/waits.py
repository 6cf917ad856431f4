"""The waits of processes for each other, and the cycles among these waits.

Interlock sees only processes, not their tasks. A process that holds one lease in one task and waits for a second lease
in another task is not blocked. So a cycle of processes is a deadlock only if each process holds and waits in the same
task.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from interlock.coordination.operators.status import Party


@dataclass(frozen=True)
class Wait:
    """One wait of a process for a lease. `holder` is None while the lease is being granted to the first waiter.
    `waited` is None if the database does not record it."""

    lease: str
    waiter: Party
    holder: Party | None
    waited: float | None


def cycles(waits: Iterable[Wait]) -> list[tuple[Wait, ...]]:
    """Returns each cycle once. In a cycle, the holder of each wait is the waiter of the next wait, and the last holder
    is the first waiter.

    If several cycles share a wait, one of them is returned; the others appear once that cycle is broken.
    """
    ahead: defaultdict[Party, list[Wait]] = defaultdict(list)
    for wait in waits:
        if wait.holder is not None and wait.holder != wait.waiter:  # a process that waits for itself has several tasks
            ahead[wait.waiter].append(wait)
    found: list[tuple[Wait, ...]] = []
    done: set[Party] = set()
    for start in list(ahead):
        found += _from(start, ahead, done)
    return found


def _from(start: Party, ahead: defaultdict[Party, list[Wait]], done: set[Party]) -> Iterable[tuple[Wait, ...]]:
    """Follow all waits that start at that party, and visit each party once."""
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
        visiting = [party for party, _ in todo]
        if wait.holder in visiting:
            place = visiting.index(wait.holder)
            yield (*path[place:], wait)
        elif wait.holder not in done:
            path.append(wait)
            todo.append((wait.holder, iter(_next(wait.holder, ahead, done))))


def _next(party: Party, ahead: defaultdict[Party, list[Wait]], done: set[Party]) -> Sequence[Wait]:
    return [] if party in done else ahead.get(party, [])
