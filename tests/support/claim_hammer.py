"""One of several processes that claim, release and transfer the same few names at random, several per transaction.

    python -m support.claim_hammer URL FILE NUMBER TRANSACTIONS

It prints "ready", begins at a line of input, and records its requests, the answers and their times. Processes of one
machine share the clock.
"""

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import IsolationLevel

from interlock import Interlock
from interlock.clock import boottime
from interlock.errors import RetryTransaction

NAMES = ("a", "b", "c")
OWNERS = ("one", "two", "three", "four")
_LEVELS = (*[IsolationLevel.READ_COMMITTED] * 4, IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE)


@dataclass
class Step:
    """`answers` has the kind and answer for each name; `undone`: by a rollback to a savepoint."""

    kind: str
    names: list[str]
    owner: str
    to: str | None
    begun_at: float
    ended_at: float = 0.0
    undone: bool = False
    error: str | None = None
    answers: list[dict[str, Any]] = field(default_factory=list)


@dataclass(eq=False)
class Transaction:
    """`committing_at` and `committed_at` are None if it was rolled back."""

    process: int
    level: str
    begun_at: float
    steps: list[Step] = field(default_factory=list)
    committing_at: float | None = None
    committed_at: float | None = None
    ended_at: float = 0.0

    @property
    def is_committed(self) -> bool:
        return self.committed_at is not None


class Hammer:
    def __init__(self, url: str, number: int) -> None:
        self._random = random.Random(number)
        self._number = number
        self._connection = psycopg.connect(url, options="-c statement_timeout=20s -c deadlock_timeout=50ms")
        self._names = Interlock(url).claims("hammered")
        self._seen: dict[str, str] = {}

    def transaction(self) -> Transaction:
        level = self._random.choice(_LEVELS)
        self._connection.isolation_level = level
        done = Transaction(self._number, level.name, boottime())
        try:
            for _ in range(self._random.randint(1, 4)):
                self._step(done)
            if self._random.random() < 0.75:
                committing_at = boottime()
                self._connection.commit()
                done.committing_at, done.committed_at = committing_at, boottime()
        except RetryTransaction:
            done.steps[-1].error = "try again"
        except psycopg.errors.SerializationFailure:  # at COMMIT
            done.steps[-1].error = "try again"
        except Exception as error:
            done.steps[-1].error = getattr(error, "sqlstate", None) or repr(error)
        self._connection.rollback()
        done.ended_at = boottime()
        return done

    def _step(self, transaction: Transaction) -> None:
        kind = self._random.choices(("claim", "claim all", "release", "transfer"), (45, 15, 30, 10))[0]
        names = self._random.sample(NAMES, self._random.randint(2, 3) if kind == "claim all" else 1)
        owner, to = self._random.sample(OWNERS, 2)
        if kind in ("release", "transfer") and self._random.random() < 0.8:  # mostly by its likely owner
            owner = self._seen.get(names[0], owner)
            to = self._random.choice([other for other in OWNERS if other != owner])
        step = Step(kind, names, owner, to if kind == "transfer" else None, boottime())
        transaction.steps.append(step)
        with self._perhaps_undone(step):
            results = self._asked(step, self._random.choice((0, 0, 0.02)))
            step.answers = [asdict(result) | {"kind": type(result).__name__} for result in results]
        self._seen |= {one["name"]: one["owner"] for one in step.answers if one["kind"] in ("Claimed", "Taken")}
        step.ended_at = boottime()
        time.sleep(self._random.choice((0, 0, 0.001, 0.003)))  # so that transactions meet

    def _asked(self, step: Step, timeout: float) -> list[Any]:
        connection, names, owner = self._connection, step.names, step.owner
        ask: dict[str, Callable[[], Any]] = {
            "claim": lambda: [self._names.claim(connection, names[0], owner, timeout=timeout, again=True)],
            "claim all": lambda: self._names.claim_all(connection, names, owner, timeout=timeout, again=True),
            "release": lambda: [self._names.release(connection, names[0], owner, gone=True, timeout=timeout)],
            "transfer": lambda: [self._names.transfer(connection, names[0], owner, str(step.to), timeout=timeout)],
        }
        asked: list[Any] = ask[step.kind]()
        return asked

    @contextmanager
    def _perhaps_undone(self, step: Step) -> Iterator[None]:
        if self._random.random() < 0.85:
            yield
            return
        step.undone = True
        with self._connection.transaction(force_rollback=True):
            yield


def main(url: str, path: str, number: str, transactions: str) -> None:
    hammer = Hammer(url, int(number))
    print("ready", flush=True)
    sys.stdin.readline()
    with Path(path).open("w") as file:
        done = (hammer.transaction() for _ in range(int(transactions)))
        file.writelines(json.dumps(asdict(one), default=str) + "\n" for one in done)


def read(path: Path) -> Iterator[Transaction]:
    for line in path.read_text().splitlines():
        facts = json.loads(line)
        yield Transaction(**facts | {"steps": [Step(**step) for step in facts["steps"]]})


if __name__ == "__main__":
    main(*sys.argv[1:])
