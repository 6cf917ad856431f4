"""What keeps the records and the engine in step, in a periodic singleton: one replica at a time does it.

Who may do what. Anybody records, in a transaction of their own: that an orchestration be run, or cancelled. Here what
is recorded is told to the engine, and what came of it is recorded. The engine ignores a start that it knows, so a crash
after telling it costs nothing but telling it again. Whoever tells it too late (it was stopped, and went on when the
record was finished and the engine's copy deleted) starts something whose steps are all refused: `begin_attempt_v1`
begins none for an orchestration that is not open.

An end is recorded in one transaction: the row is locked, so that no attempt begins any more; it is finished; every
attempt is made out of date, which waits for transactions that carry the fence of one; and if it did not complete, its
clean-up is recorded. So a clean-up never meets a late effect, and a crash in between leaves all of it to be done.
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
"""Seconds that whoever recorded it has to start it."""
_BATCH = 5000
_BUSY = (errors.LockNotAvailable, errors.StatementFailed)


class Outbox:
    """`engine` gives the one that is to be told."""

    def __init__(self, database: EngineDatabase, engine: Callable[[], DuroxideEngine]) -> None:
        self._database = database
        self._engine = engine

    async def sweep(self) -> None:
        await self._settle()
        await self._database.fetch("note_started")
        await self._cancel()
        await self._start()

    async def prune(self, retention: float) -> int:
        """Forget what ended longer ago than so many seconds. The engine's part goes first: without its record, nothing
        would tell that it is there."""
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
        """Completed ones together. Of the others each alone: an effect that is under way may hold one up."""
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
