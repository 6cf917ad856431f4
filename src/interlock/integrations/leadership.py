"""Leadership for schedulers that run in every replica and act in one: the election, and a record of the actions.

A scheduler runs in its own thread, and asks in that thread whether it leads. The statement that writes its record also
checks that its term is current. So a scheduler has to write the record before it acts: if another replica leads now,
the write raises an error, and the scheduler must not act. This holds also for a process that was suspended. If a leader
dies between the record and the action, no replica takes that action.
"""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

from interlock.bridge import LoopThread
from interlock.coordination.lease.lease import LeaseSettings
from interlock.coordination.lease.name import part, whole_name
from interlock.coordination.lease.times import Duration
from interlock.coordination.primitives.election import AsyncElection
from interlock.coordination.sync.election import Term
from interlock.coordination.sync.root import Interlock
from interlock.errors import ConfigurationError, InterlockError
from interlock.logs import events

log = events(__name__)

_RETRY_AFTER = 1.0
"""Seconds after which an election that failed with an error is tried again."""


class LedTerm(Term):
    """A term under which records can be written."""

    __slots__ = ()

    def remember(self, key: str, value: Any) -> None:
        """Write `value` to the record of `key`. Raises `LeaseLost` if the term is no longer current."""
        self._thread.run(self.granted.engine.records.write(key, json.dumps(value), self.granted))


class Leadership:
    """A candidate between `start` and `stop`. Another thread calls `on_elected`, which has to be quick.

    If `on_elected` raises, the error is logged and the term is released; a little later the candidate tries again.
    """

    def __init__(
        self, locks: Interlock, name: str, ttl: Duration, on_elected: Callable[[], object] = lambda: None
    ) -> None:
        self._locks = locks
        self._key = part(whole_name(name), "schedule")
        self._settings = LeaseSettings(name, ttl, None, None, None)
        self._on_elected = on_elected
        self._is_leader = threading.Event()
        self._term: LedTerm | None = None
        self._candidacy: tuple[LoopThread, asyncio.Task[None]] | None = None

    @property
    def term(self) -> LedTerm | None:
        """The current term; None if this replica does not lead. This asks no database: this machine's clock shows how
        long a term can be trusted."""
        term = self._term
        return None if term is None or term.lost else term

    def wait(self, timeout: float) -> bool:
        """Wait until this replica leads, for at most `timeout` seconds. Returns True if it leads."""
        return self._is_leader.wait(timeout)

    def start(self) -> None:
        """Begin the candidacy. Raises an InterlockError if the database cannot be used."""
        self._locks.open()
        thread = self._locks.loop_thread()
        try:
            thread.run(self._begin(thread))
        except BaseException:  # an interrupt may come after the candidacy has begun: it has to be stopped
            self.stop()
            raise

    def stop(self) -> None:
        """End the candidacy and release the lease. A second call does nothing."""
        candidacy = self._candidacy
        if candidacy is None:
            return
        thread, _ = candidacy
        try:
            thread.run(self._end())
        except ConfigurationError:
            if not thread.is_closing:  # a thread that closes has released the lease
                raise

    def read(self) -> Any:
        """Returns the value that any leader recorded last; None if no leader has recorded one."""

        async def read() -> Any:
            record = await self._locks.engine().records.read(self._key)
            return None if record is None else json.loads(record.value)

        return self._locks.run(read())

    def write(self, term: LedTerm, value: Any) -> None:
        """Record `value` for the next leader. Raises `LeaseLost` if the term is no longer current."""
        term.remember(self._key, value)

    async def _begin(self, thread: LoopThread) -> None:
        """Runs on the loop, where no interrupt comes between the start of the task and its assignment. So `stop` finds
        every candidacy that has begun."""
        self._candidacy = thread, asyncio.create_task(self._campaign(thread))

    async def _end(self) -> None:
        candidacy, self._candidacy = self._candidacy, None
        if candidacy is not None:
            candidacy[1].cancel()
            await asyncio.wait([candidacy[1]])

    async def _campaign(self, thread: LoopThread) -> None:
        """Runs until it is cancelled or the engine is closed; a closed engine is not opened again."""
        engine = self._locks.engine()
        election = AsyncElection(lambda: engine, self._settings)
        while not engine.closed:
            try:
                async for term in election:
                    async with term:
                        await self._hold_term(LedTerm(thread, term))
            except InterlockError as error:
                log.warning("election.failed", extra={"lease": self._settings.name, "why": str(error)})
            except Exception:  # `on_elected` failed and the scheduler does not act: another replica may lead
                log.exception("election.failed", extra={"lease": self._settings.name})
            await asyncio.sleep(_RETRY_AFTER)

    async def _hold_term(self, term: LedTerm) -> None:
        """Runs until the end of the term cancels this coroutine."""
        self._term = term
        self._is_leader.set()
        try:
            self._on_elected()
            await asyncio.Event().wait()
        finally:
            self._is_leader.clear()
            self._term = None
