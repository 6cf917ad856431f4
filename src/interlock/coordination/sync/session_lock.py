"""Session locks for callers without an event loop: the locks live on the root object's loop thread."""

import threading
from collections.abc import Awaitable, Callable
from typing import Protocol, Self

from interlock.bridge import LoopThread
from interlock.coordination.lease.times import Duration
from interlock.coordination.session_lock.grant import AsyncSessionGrant
from interlock.coordination.session_lock.lock import AsyncSessionLock
from interlock.coordination.sync.blocks import Blocks
from interlock.errors import ConfigurationError


class Loop(Protocol):
    """An object that runs coroutines while the caller waits: an `interlock.bridge.LoopThread`, or an object that owns
    one."""

    def loop_thread(self) -> LoopThread: ...


class SessionGrant:
    """Like `AsyncSessionGrant`, with blocking methods. A lost lock cannot cancel a thread: call `check()` between
    steps, or use `on_lost`. If the lock was lost, the end of the block raises `SessionLockLost` too."""

    def __init__(self, grant: AsyncSessionGrant, loop: LoopThread) -> None:
        self._grant = grant
        self._loop = loop

    def __repr__(self) -> str:
        return repr(self._grant)

    @property
    def name(self) -> str:
        return self._grant.name

    @property
    def backend_pid(self) -> int:
        return self._grant.backend_pid

    @property
    def lost(self) -> bool:
        return self._grant.lost

    def check(self) -> None:
        self._grant.check()

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Call the callback with the reason when the lock is lost, on the loop's thread. The callback must not block
        for long."""
        self._loop.run(self._tell_when_lost(callback))

    def wait_lost(self) -> str:
        return self._loop.run(self._grant.wait_lost())

    def release(self) -> bool:
        if self._grant.is_inherited:
            return False
        try:
            return self._loop.run(self._grant.release())
        except ConfigurationError:
            if self._loop.is_closing:  # closing has ended it
                return False
            raise

    def drop(self) -> None:
        """Release the lock and do not wait for the answer. This method is used after an interrupt."""
        if not self._grant.is_inherited:
            self._loop.post(self._grant.drop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            held = self.release()
        except BaseException:
            self.drop()
            raise
        if not held:
            raise self._grant.error() from error

    async def _tell_when_lost(self, callback: Callable[[str], object]) -> None:
        self._grant.on_lost(callback)


class SessionLock(Blocks[SessionGrant]):
    """``with lock as grant: …``; see `AsyncSessionLock`. Any number of threads may share it."""

    def __init__(self, lock: AsyncSessionLock, loop: Loop) -> None:
        super().__init__()
        self._lock = lock
        self._loop = loop

    @property
    def name(self) -> str:
        return self._lock.name

    def try_acquire(self) -> SessionGrant | None:
        owner = threading.current_thread()
        return self._granted(lambda: self._lock.try_acquire_as(owner), [])

    def acquire(self, timeout: Duration | None = None) -> SessionGrant:
        """Wait for the lock and return the grant, a context manager: ``with lock.acquire(timeout=5) as grant: …``."""
        return self._acquire([], timeout)

    def _acquire(self, granted: list[SessionGrant], timeout: Duration | None = None) -> SessionGrant:
        owner = threading.current_thread()
        grant = self._granted(lambda: self._lock.acquire_as(owner, timeout), granted)
        assert grant is not None
        return grant

    def _granted(
        self, acquire: Callable[[], Awaitable[AsyncSessionGrant | None]], granted: list[SessionGrant]
    ) -> SessionGrant | None:
        """Acquire the lock, and append the grant to `granted` as soon as the grant exists. If this thread is
        interrupted, the grant is released."""
        loop = self._loop.loop_thread()

        async def note() -> None:
            if grant := await acquire():
                granted.append(SessionGrant(grant, loop))

        try:
            loop.run(note())
        except BaseException:
            for grant in granted:
                grant.release()
            raise
        return granted[0] if granted else None
