"""Waiting for the end of orchestrations. All waiters of a process share one statement per round."""

import asyncio
from collections import defaultdict
from typing import NamedTuple

from interlock.durable.database import EngineDatabase
from interlock.errors import StoreError
from interlock.logs import events

log = events(__name__)

_POLL = 0.1
_RETRY_AFTER = 1.0


class Ending(NamedTuple):
    completed: bool
    output: str


class CompletionWaiters:
    def __init__(self, database: EngineDatabase) -> None:
        self._database = database
        self._waiters: defaultdict[str, set[asyncio.Future[Ending]]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None

    async def wait_for(self, id: str) -> Ending:  # noqa: A002
        future: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._waiters[id].add(future)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            return await future
        finally:
            self._waiters[id].discard(future)
            if not self._waiters[id]:
                del self._waiters[id]

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _watch(self) -> None:
        """Poll while there are waiters. If the database is unreachable, poll again later."""
        while self._waiters:
            try:
                for row in await self._database.fetch("ended", list(self._waiters)):
                    ending = Ending(row["status"] in ("Completed", "completed"), row["output"] or "")
                    for future in self._waiters.get(row["id"], ()):
                        if not future.done():
                            future.set_result(ending)
            except StoreError as error:
                log.warning("orchestration.database_away", extra={"why": str(error)})
                await asyncio.sleep(_RETRY_AFTER)
            await asyncio.sleep(_POLL)
