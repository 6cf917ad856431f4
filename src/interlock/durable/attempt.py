"""What an activity gets: which step this is, which attempt at it, and the fence of its effects.

Who may do what. The attempts at a step are counted in a row of the database. Each raises the count before it does
anything, and an effect counts only in a transaction that holds the row with its own count locked: `fence`. So a worker
that was stopped, and whose step another has begun meanwhile, cannot write any more, however late it wakes up.

What a crash leaves behind. After the count was raised: a number that nobody uses. In a fenced transaction: nothing.
After its commit: the effect, which the next attempt finds by `key`, because that is the same for all attempts.
"""

import asyncio
from collections.abc import Awaitable, Generator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from interlock.durable.database import fetch_value, fetch_value_sync
from interlock.stores.postgres.queries import in_schema

_FENCE = (
    "SELECT interlock.fence_v1(CAST($1 AS text), CAST($2 AS text), CAST($3 AS bigint), CAST($4 AS integer), "
    "CAST($5 AS bigint))"
)


@dataclass(frozen=True)
class Attempt:
    """`number` is the fencing token: it grows with each attempt at the step. `at` is when the first one began."""

    orchestration: str
    root: str
    execution: int
    step: int
    number: int
    at: datetime
    schema: str

    @property
    def key(self) -> str:
        """The same for every attempt at this step, and for no other step: what other systems take for idempotency."""
        return f"{self.orchestration}/{self.execution}.{self.step}"

    def fence(self, connection: Any) -> Awaitable[None]:
        """Let the transaction on `connection` commit only while no later attempt has begun.

        Raises `AttemptSuperseded` if one has. Call it before the effect or after it, in the same transaction. In a
        coroutine function it is awaited. In a plain one, with a sync connection, it is done when this returns.
        """
        statement = in_schema(_FENCE, self.schema)
        args = (self.root, self.orchestration, self.execution, self.step, self.number)
        if _is_on_a_loop():
            return fetch_value(connection, statement, *args)
        fetch_value_sync(connection, statement, *args)
        return _Done()


class _Done:
    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
