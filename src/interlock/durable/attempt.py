"""The interface of an activity: the step, the number of this attempt at it, and the fence of its effects.

Permissions: a row of the database holds the number of the newest attempt at a step; each attempt raises that number
before it does anything. `fence` locks the row, and raises an error if a newer attempt has begun. So a worker that was
stopped, and whose step another worker has begun in the meantime, can no longer write.

Crashes: a crash after the count was raised leaves an unused number. A crash inside a fenced transaction leaves nothing.
A crash after the commit of that transaction leaves the effect. The next attempt finds the effect by `key`, which is the
same for all attempts.
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
    """One attempt at a step.

    `number` is its fencing token, which grows with each attempt. `at` is the first attempt's start.
    """

    orchestration: str
    root: str
    execution: int
    step: int
    number: int
    at: datetime
    schema: str

    @property
    def key(self) -> str:
        """The idempotency key for other systems.

        Every attempt at this step has the same key, and no other step has it.
        """
        return f"{self.orchestration}/{self.execution}.{self.step}"

    def fence(self, connection: Any) -> Awaitable[None]:
        """Let the transaction on `connection` commit only while no later attempt has begun.

        Raises `AttemptSuperseded` if a later attempt has begun. Call `fence` before or after the effect, in the same
        transaction. A coroutine function has to await it. In a plain function, with a sync connection, the fence is set
        when the call returns.
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
