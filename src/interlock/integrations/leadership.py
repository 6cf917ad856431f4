"""For schedulers that run in every replica and act in one: standing for election beside them, and what they remember.

A scheduler runs in a thread of its own, and asks there whether it leads. What it remembers is a record, written only
while its term is current, which the same statement decides. So a scheduler that writes down what it is about to do
before it does it finds out in time that another leads, also if its process stood still meanwhile. What one that died
between writing and doing was about to do, nobody does.
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

_PAUSE = 1.0
"""Seconds until an election that failed, other than by losing it, is tried again."""


class LedTerm(Term):
    """A term that something can be remembered by."""

    __slots__ = ()

    def remember(self, key: str, value: Any) -> None:
        """Raises `LeaseLost` if it is not current any more."""
        self._thread.run(self.granted.engine.records.write(key, json.dumps(value), self.granted))


class Leadership:
    """`start` and `stop` it; `on_elected` is called on another thread, and has to be quick.

    If that raises, it is logged, and the term is given back; a little later we stand for the next one.
    """

    def __init__(
        self, locks: Interlock, name: str, ttl: Duration, on_elected: Callable[[], object] = lambda: None
    ) -> None:
        self._locks = locks
        self._key = part(whole_name(name), "schedule")
        self._settings = LeaseSettings(name, ttl, None, None, None)
        self._on_elected = on_elected
        self._leads = threading.Event()
        self._term: LedTerm | None = None
        self._standing: tuple[LoopThread, asyncio.Task[None]] | None = None

    @property
    def term(self) -> LedTerm | None:
        """The term that we lead by. Asks nobody: this machine's clock knows how long it may be trusted."""
        term = self._term
        return None if term is None or term.lost else term

    def wait(self, timeout: float) -> bool:
        """Until we lead, for so many seconds at most."""
        return self._leads.wait(timeout)

    def start(self) -> None:
        """Raises what is wrong with the database."""
        self._locks.open()
        thread = self._locks.loop_thread()
        try:
            thread.run(self._begin(thread))
        except BaseException:  # we were interrupted, perhaps when it had begun: nobody would stop it
            self.stop()
            raise

    def stop(self) -> None:
        """Give the lease to whoever waits for it. Twice is once."""
        standing = self._standing
        if standing is None:
            return
        thread, _ = standing
        try:
            thread.run(self._end())
        except ConfigurationError:
            if not thread.is_closing:  # else that gave the lease back
                raise

    def read(self) -> Any:
        """What was remembered last, by whoever led then; None: nothing."""

        async def read() -> Any:
            record = await self._locks.engine().records.read(self._key)
            return None if record is None else json.loads(record.value)

        return self._locks.run(read())

    def write(self, term: LedTerm, value: Any) -> None:
        """Raises `LeaseLost` if that term is not current any more."""
        term.remember(self._key, value)

    async def _begin(self, thread: LoopThread) -> None:
        """On the loop, where no interrupt comes between the two: what stands is what `stop` ends."""
        self._standing = thread, asyncio.create_task(self._stand(thread))

    async def _end(self) -> None:
        standing, self._standing = self._standing, None
        if standing is not None:
            standing[1].cancel()
            await asyncio.wait([standing[1]])

    async def _stand(self, thread: LoopThread) -> None:
        """Until we are stopped, or all is closed: nothing is opened anew after that."""
        engine = self._locks.engine()
        election = AsyncElection(lambda: engine, self._settings)
        while not engine.closed:
            try:
                async for term in election:
                    async with term:
                        await self._lead(LedTerm(thread, term))
            except InterlockError as error:
                log.warning("election.failed", extra={"lease": self._settings.name, "why": str(error)})
            except Exception:  # whoever does not know that it leads does nothing: another may lead, and we try again
                log.exception("election.failed", extra={"lease": self._settings.name})
            await asyncio.sleep(_PAUSE)

    async def _lead(self, term: LedTerm) -> None:
        """Until it is over, and we are cancelled."""
        self._term = term
        self._leads.set()
        try:
            self._on_elected()
            await asyncio.Event().wait()
        finally:
            self._leads.clear()
            self._term = None
