"""The outbox: it passes recorded requests to the engine, and records the results. One replica at a time runs it.

Permissions: any process records requests, in transactions of its own. The outbox starts and cancels the requested
orchestrations in the engine, and records how they end. The engine ignores a repeated start, so a crash after a start
only repeats it. A replica may be stopped before such a start, and continue when the orchestration has been finished and
deleted. It then starts an orchestration whose steps are all refused: `begin_attempt_v1` begins no attempt if the record
is not open.

An end is recorded in one transaction. It locks the orchestration's row, so that no new attempt begins, and marks the
orchestration as finished. It makes every attempt obsolete, and for that waits for open transactions with the fence of
an attempt. If the orchestration did not complete, it records the clean-up. So a clean-up never meets a late effect, and
a crash in between repeats all of it.
"""

import json
from collections.abc import Callable

from interlock import errors
from interlock.durable.database import EngineDatabase
from interlock.durable.engine import DuroxideEngine
from interlock.durable.run import engine_input
from interlock.logs import events

log = events(__name__)

_GRACE = 1.0
"""Seconds in which the process that recorded a request starts the orchestration itself."""
_BATCH = 5000
_BUSY = (errors.LockNotAvailable, errors.StatementFailed)


class Outbox:
    """Passes recorded requests to the engine, and records results. `engine` returns the current engine."""

    def __init__(self, database: EngineDatabase, engine: Callable[[], DuroxideEngine]) -> None:
        self._database = database
        self._engine = engine

    async def sweep(self) -> None:
        await self._settle()
        await self._database.fetch("note_started")
        await self._cancel()
        await self._start()

    async def prune(self, retention: float) -> int:
        """Delete orchestrations that ended more than `retention` seconds ago.

        Returns the number of deleted orchestrations.

        The engine's rows are deleted first: without the record, nothing would lead to them.
        """
        forgotten = 0
        while ids := [row["id"] for row in await self._database.fetch("old", retention)]:
            await self._engine().forget(ids)
            await self._database.fetch("forget", ids)
            forgotten += len(ids)
        if long := [row["id"] for row in await self._database.fetch("long")]:
            await self._engine().shorten(long)
            while await self._database.fetch("forget_old_attempts", _BATCH):
                pass
        return forgotten

    async def _start(self) -> None:
        for row in await self._database.fetch("unstarted", _GRACE):
            if row["cancelled"]:
                await self._settle_these([row["id"]], by="cancel_unstarted")
                continue
            content = engine_input(row["id"], json.loads(row["input"]))
            await self._engine().start(row["id"], row["name"], row["version"], content)
            log.info("orchestration.started_late", extra={"orchestration": row["id"]})

    async def _cancel(self) -> None:
        for row in await self._database.fetch("to_cancel"):
            await self._engine().cancel(row["id"], row["cancel_reason"] or "")

    async def _settle(self) -> None:
        """Settle completed orchestrations together, and every other one alone.

        A running effect may delay such a settlement.
        """
        ended = await self._database.fetch("to_settle")
        await self._settle_these([row["id"] for row in ended if row["status"] == "Completed"])
        for row in ended:
            if row["status"] != "Completed":
                await self._settle_these([row["id"]])

    async def _settle_these(self, ids: list[str], by: str = "settle") -> None:
        if not ids:
            return
        try:
            async with self._database.transaction() as transaction:
                open_ids = [row["id"] for row in await transaction.fetch("lock", ids)]
                await transaction.fetch(by, open_ids)
                await transaction.fetch("forget_attempts", open_ids)
                await transaction.fetch("record_cleanups", open_ids)
        except _BUSY as error:
            log.warning("orchestration.settled_later", extra={"orchestrations": len(ids), "why": str(error)})
