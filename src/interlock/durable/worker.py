"""The worker that runs activities. The engine calls it in a thread of its own.

A plain function runs in that thread. A coroutine function runs on the application's event loop, and the thread waits
for it. If the database is unreachable when an attempt begins, the worker waits, because the activity itself has not
failed. The engine may give the step to another replica in the meantime; both are attempts, and the fence lets one of
them write.
"""

import asyncio
import random
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future, wait
from typing import Any, TypeVar

from interlock.durable.attempt import Attempt
from interlock.durable.database import EngineDatabase
from interlock.durable.declarations import Activity, Registry
from interlock.durable.failures import ActivityFailure, EncodedFailure
from interlock.errors import DoNotRetry, OrchestrationEnded, PermissionMissing, StoreError
from interlock.logs import events

log = events(__name__)

T = TypeVar("T")

_CHECK_EVERY = 0.5
_RETRY_AFTER = 1.0


class ActivityWorker:
    def __init__(self, declared: Registry, database: EngineDatabase, loop: asyncio.AbstractEventLoop) -> None:
        self._declared = declared
        self._database = database
        self._loop = loop
        self._running: dict[Future[Any], Activity[Any, Any]] = {}
        self._closing = False

    def perform(self, name: str, context: Any, content: Any) -> Any:
        """Run an activity, in a thread of the engine, until it has ended or the engine has cancelled it."""
        activity = self._declared.activities[name]
        try:
            if not activity.is_plain:
                return self._on_the_loop(self._run(activity, context, content), activity, context)
            attempt = self._on_the_loop(self._begin_attempt(context, content), activity, context)
            value = activity.input.load(content["input"])
            return activity.output.dump(activity.function(attempt, value))
        except CancelledError:
            raise EncodedFailure(
                ActivityFailure("interrupted", "The activity was cancelled while it ran.", retry=True)
            ) from None
        except Exception as error:
            failure = ActivityFailure.of(error, activity.retry.never)
            facts = {"activity": name, "orchestration": context.instance_id, "code": failure.code}
            if failure.superseded:
                log.info("activity.superseded", extra={**facts, "why": failure.message})
            else:
                log.warning("activity.failed", extra=facts, exc_info=error)
            raise EncodedFailure(failure) from None

    def _on_the_loop(self, work: Coroutine[Any, Any, T], activity: Activity[Any, Any], context: Any) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        self._running[future] = activity
        try:
            while not wait([future], timeout=_CHECK_EVERY).done:
                if context.is_cancelled() or (self._closing and activity.interruptible):
                    future.cancel()
            return future.result()
        finally:
            del self._running[future]

    def begin_closing(self) -> None:
        """Interrupt interruptible activities, and begin no more of them, because the replica is about to close."""
        self._closing = True
        self._interrupt([future for future, activity in list(self._running.items()) if activity.interruptible])

    def interrupt(self) -> None:
        """Interrupt all running activities. Other replicas run them again."""
        self._interrupt(list(self._running))

    def _interrupt(self, futures: list[Future[Any]]) -> None:
        for future in futures:
            future.cancel()

    async def _run(self, activity: Activity[Any, Any], context: Any, content: Any) -> Any:
        attempt = await self._begin_attempt(context, content)
        value = activity.input.load(content["input"])
        try:
            async with asyncio.timeout(activity.timeout):
                return activity.output.dump(await activity.function(attempt, value))
        except TimeoutError:
            raise TimeoutError(
                f"The activity, or a step inside it, did not end within {activity.timeout:g} s."
            ) from None

    async def _begin_attempt(self, context: Any, content: Any) -> Attempt:
        id, execution = context.instance_id, context.execution_id  # noqa: A001
        root, step = content["root"], content["step"]
        while True:
            try:
                rows = await self._database.fetch("begin", root, id, execution, step)
                break
            except PermissionMissing:
                raise
            except StoreError as error:
                log.warning("activity.database_away", extra={"orchestration": id, "why": str(error)})
                await asyncio.sleep(_RETRY_AFTER * random.uniform(0.5, 1.0))
        if not rows:
            raise DoNotRetry(
                f"The orchestration {root!r} has ended: no more steps of it are run.", code=OrchestrationEnded.code
            )
        number, begun_at = rows[0]
        return Attempt(id, root, execution, step, number, begun_at, self._database.schema)
