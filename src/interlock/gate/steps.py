"""A ledger for effects outside the database (a search index, a bucket), which no transaction can undo.

Each step is recorded before it begins and after it has ended. A step that is recorded as ended is not run again. A step
that was begun and never ended may have happened, wholly or in part. An operator has to check it, so it is reported and
never run again automatically.
"""

import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any

from interlock import errors
from interlock.bridge import RunBlocking
from interlock.gate.progress import Progress, retry_while_locked
from interlock.identity import replica_id
from interlock.logs import events
from interlock.stores.postgres.session import Row

log = events(__name__)

Precondition = Callable[[], bool | Awaitable[bool]]
Effect = Callable[[], Any]


async def call(function: Callable[[], Any], run_blocking: RunBlocking) -> Any:
    """Call a user's function, asynchronous or not."""
    if inspect.iscoroutinefunction(function):
        return await function()
    answer = await run_blocking(function)
    return await answer if inspect.isawaitable(answer) else answer


class Ledger:
    def __init__(self, progress: Progress, check: Callable[[], None], run_blocking: RunBlocking) -> None:
        self._session = progress.session
        self._gate = progress.gate
        self._fence = progress.fence
        self._queries = progress.queries
        self._check = check
        self._run_blocking = run_blocking

    async def run(self, step: str, precondition: Precondition | None, effect: Effect) -> Any:
        """Run `effect` exactly once. Returns the result of the call that ran it, after a round trip through JSON."""
        if (row := await self._read(step)) is None:
            if precondition is not None and not await call(precondition, self._run_blocking):
                raise errors.StepRefused(
                    f"Step {step!r} of {self._gate} was not begun: its precondition does not hold. "
                    "Make it hold, or correct the precondition, and run the migration again.",
                    gate=self._gate,
                    step=step,
                )
            if await self._begin(step):
                return await self._perform(step, effect)
            row = await self._read(step)
        if row is None or row["finished_at"] is None:
            raise self._half_done(step, row)
        return row["result"] and json.loads(row["result"])

    async def _perform(self, step: str, effect: Effect) -> Any:
        try:
            result = await call(effect, self._run_blocking)
        except Exception as error:
            await self._record("fail_step", step, type(error).__name__)
            raise
        recorded = self._as_json(step, result)
        await self._record("finish_step", step, recorded)
        return json.loads(recorded)

    async def _record(self, query: str, step: str, fact: str) -> None:
        """Record a fact, which has happened already. If another session locks the ledger, try until it is recorded."""
        arguments = (self._queries[query], self._gate, step, self._fence, fact)
        await retry_while_locked(lambda: self._session.execute(*arguments), self._check)

    def _as_json(self, step: str, result: Any) -> str:
        """Returns the result as JSON. A result that JSON cannot hold is null, for the first caller and later ones."""
        try:
            return json.dumps(result)
        except (TypeError, ValueError):
            facts = {"gate": self._gate, "step": step, "kind": type(result).__name__}
            log.warning("gate.step_result_dropped", extra=facts)
            return "null"

    async def _begin(self, step: str) -> bool:
        begun = await self._session.fetchval(self._queries["begin_step"], self._gate, step, self._fence, replica_id())
        return begun is not None

    async def _read(self, step: str) -> Row | None:
        return await self._session.fetchrow(self._queries["read_step"], self._gate, step)

    def _half_done(self, step: str, row: Row | None) -> errors.StepHalfDone:
        who = f" by {row['replica']} at {row['started_at']:%Y-%m-%d %H:%M:%S %Z}" if row else ""
        return errors.StepHalfDone(
            f"Step {step!r} of {self._gate} was begun{who} and never finished: check its target, then settle it with "
            f"`interlock gate settle {step!r} --gate {self._gate} --done` or `--again`.",
            gate=self._gate,
            step=step,
        )
