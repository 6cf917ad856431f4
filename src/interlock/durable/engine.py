"""The engine (duroxide), and workarounds for its behaviour. No other module imports it.

- The engine connects while it holds the interpreter lock. So the database is checked first, and the engine
  connects in a thread.
- Its client blocks, so each call runs in a thread. The engine calls activities in threads of its own.
- Its locks use this machine's clock.
- Two engines that create its tables at the same time conflict, so one waits for the other.
- The engine prints its messages. This module turns that off, and logs the relevant messages.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from interlock.clock import boottime
from interlock.durable.database import engine_schema
from interlock.durable.declarations import Registry
from interlock.durable.generators import generator_of
from interlock.errors import ConfigurationError, StoreError
from interlock.logs import events
from interlock.stores.postgres import AdvisoryKey, Session
from interlock.stores.postgres.session import as_line

log = events(__name__)

T = TypeVar("T")
Perform = Callable[[str, Any, Any], Any]
"""Takes an activity's name, the engine's context and the content; called in a thread of the engine."""

_LOCK = 5000
"""Milliseconds after which another replica takes over the work of a dead replica.

A lock is renewed at half of that time.
"""
_POISONED = 100
"""Deliveries after which the engine gives up a message.

Deliveries to replicas of an older release, which cannot handle it, count.
"""
_POLL = 50
_CALLS = 8


class DuroxideEngine:
    def __init__(self, duroxide: Any, provider: Any) -> None:
        self._duroxide = duroxide
        self._provider = provider
        self._client = duroxide.Client(provider)
        self._threads = ThreadPoolExecutor(_CALLS, "interlock-engine")
        self._runtime: Any = None
        self._runner: threading.Thread | None = None
        self._running: set[object] = set()
        self._pid = os.getpid()

    @classmethod
    async def connect(cls, url: str, schema: str, session: Session) -> "DuroxideEngine":
        """Connect the engine, after `session` has shown that the database answers."""
        duroxide = _imported()
        with suppress(RuntimeError):  # its output was configured before
            duroxide.init_tracing(os.devnull, "error")
        lock = AdvisoryKey.of("interlock engine", schema)
        await session.fetchval("SELECT pg_advisory_lock($1, $2)", *lock)
        try:
            connect = partial(duroxide.PostgresProvider.connect_with_schema, url, engine_schema(schema))
            return cls(duroxide, await asyncio.to_thread(connect))
        except RuntimeError as error:
            raise StoreError(
                f"The engine cannot use its schema {engine_schema(schema)!r} ({as_line(error)}): the role has to own "
                "that schema or be allowed to create it, and if a newer release has changed it, upgrade this replica."
            ) from error
        finally:
            await session.fetchval("SELECT pg_advisory_unlock($1, $2)", *lock)

    def run(self, declared: Registry, perform: Perform, concurrency: int) -> None:
        """Run activities and orchestrations, in threads."""
        runtime = self._runtime = self._duroxide.Runtime(self._provider, options(self._duroxide, concurrency))
        for name in declared.activities:
            runtime.register_activity(name, partial(self._perform, perform, name))
        for one in declared:
            runtime.register_orchestration_versioned(one.name, one.version, generator_of(one))
        self._runner = threading.Thread(target=runtime.start, name="interlock-engine", daemon=True)
        self._runner.start()

    async def start(self, id: str, name: str, version: str, content: str) -> None:  # noqa: A002
        """Start an orchestration. A repetition changes nothing, unless the orchestration was deleted in between."""
        await self._call(self._client._native.start_orchestration_versioned, id, name, content, version)

    async def cancel(self, id: str, reason: str) -> None:  # noqa: A002
        await self._call(self._client.cancel_instance, id, reason)

    async def send(self, id: str, queue: str, value: Any) -> None:  # noqa: A002
        """Send an event. The engine drops the event if it does not know that id."""
        await self._call(self._client.enqueue_event, id, queue, value)

    async def forget(self, ids: list[str]) -> None:
        """Delete orchestrations that have ended, with their children."""
        await self._call(self._client.delete_instance_bulk, self._duroxide.InstanceFilter(instance_ids=ids))

    async def shorten(self, ids: list[str]) -> None:
        """Delete all but the two newest executions of orchestrations that were continued as new."""
        chosen = self._duroxide.InstanceFilter(instance_ids=ids)
        await self._call(self._client.prune_executions_bulk, chosen, self._duroxide.PruneOptions(keep_last=2))

    async def close(self, timeout: float) -> None:
        """Take no more work, wait up to `timeout` seconds for running activities, and close the engine's connections.

        If the database is unreachable, the wait ends when the engine's own locks have expired.
        """
        self._check_process()
        if self._runner is not None:
            shut_down = partial(self._shut_down, self._runtime, round(timeout * 1000))
            ending = threading.Thread(target=shut_down, name="interlock-engine-end", daemon=True)
            ending.start()
            await self._ended([ending, self._runner], boottime() + timeout)
        self._threads.shutdown(wait=False)
        self._runtime = self._client = self._provider = None

    async def _ended(self, threads: list[threading.Thread], gives_up_at: float) -> None:
        """Wait for both threads: a thread that leaves the engine while the interpreter ends would abort the process."""
        quiet_since = boottime()
        while any(thread.is_alive() for thread in threads) and (now := boottime()) < gives_up_at:
            if self._running:
                quiet_since = now
            elif now > quiet_since + _LOCK / 1000:
                return
            await asyncio.sleep(_POLL / 1000)

    def _shut_down(self, runtime: Any, timeout_ms: int) -> None:
        while True:
            try:
                runtime.shutdown(timeout_ms)
                return
            except RuntimeError as error:
                if str(error) != "Already borrowed":  # by its start, which has not returned yet
                    log.warning("orchestration.engine_not_closed", extra={"why": as_line(error)})
                    return
            time.sleep(_POLL / 1000)

    def _perform(self, perform: Perform, name: str, context: Any, content: Any) -> Any:
        self._running.add(mark := object())
        try:
            return perform(name, context, content)
        finally:
            self._running.discard(mark)

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise ConfigurationError("The engine does not survive a fork: open AsyncDurable in the child process.")

    async def _call(self, function: Callable[..., T], *args: Any) -> T:
        self._check_process()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, *args)
        except RuntimeError as error:
            raise StoreError(f"The engine failed ({as_line(error)}): check the database, and try again.") from error


def options(duroxide: Any, concurrency: int) -> Any:
    return duroxide.RuntimeOptions(
        orchestration_concurrency=max(2, concurrency // 2),
        worker_concurrency=concurrency,
        dispatcher_poll_interval_ms=_POLL,
        worker_lock_timeout_ms=_LOCK,
        orchestrator_lock_timeout_ms=_LOCK,
        max_attempts=_POISONED,
    )


def _imported() -> Any:
    try:
        import duroxide
    except ImportError as error:
        raise ConfigurationError("Orchestrations need the engine: pip install 'interlock[durable]'.") from error
    return duroxide
