"""Several leases at once, for callers without an event loop."""

import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

from interlock.bridge import LoopThread
from interlock.coordination.lease.several import AsyncGrants, LeasesSettings
from interlock.coordination.lease.times import Duration, checked_timeout
from interlock.coordination.sync.blocks import Blocks
from interlock.coordination.sync.grant import Grant

if TYPE_CHECKING:
    from interlock.coordination.engine.engine import Engine
    from interlock.coordination.sync.root import Interlock


class Grants:
    """Like `AsyncGrants`, with blocking methods. A lost lease cannot cancel a thread: call `check()` between steps."""

    def __init__(self, thread: LoopThread, grants: AsyncGrants) -> None:
        self.grants = tuple(Grant(thread, grant) for grant in grants.grants)
        self._grants = grants

    @property
    def tokens(self) -> Mapping[str, int]:
        return self._grants.tokens

    @property
    def lost(self) -> bool:
        return self._grants.lost

    @property
    def remaining(self) -> float:
        return self._grants.remaining

    def check(self) -> None:
        """Raise `LeaseLost` if one of the leases is not held any more."""
        self._grants.check()

    def guard(self, connection: Any = None) -> None:
        """Let the connection's open transaction commit only while all grants are current."""
        for grant in self.grants:
            grant.guard(connection)

    def release(self) -> bool:
        """Release all leases. Returns False if one of them was not held any more."""
        try:
            released = [grant.release() for grant in reversed(self.grants)]
        except BaseException:  # mostly an interrupt: the remaining ones are released as well
            self.drop()
            raise
        return all(released)

    def drop(self) -> None:
        """Release all grants that have not ended, and do not wait for the answers. This method is used after an
        interrupt."""
        for grant in self.grants:
            grant.drop()

    def __enter__(self) -> Self:
        if self._grants.ended or self._grants.lost:  # between the grants and this block
            self.release()
            raise self._grants.error()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            released_before = all(grant.is_released for grant in self._grants.grants)
            released = self.release()
        except BaseException:
            self.drop()
            raise
        if not released and not released_before:
            raise self._grants.error() from error


class Leases(Blocks[Grants]):
    """``with locks.leases("a", "b") as grants: …`` waits until it holds all the leases."""

    def __init__(self, locks: "Interlock", settings: LeasesSettings) -> None:
        super().__init__()
        self._locks = locks
        self._settings = settings

    @property
    def names(self) -> tuple[str, ...]:
        return self._settings.names

    def try_acquire(self) -> Grants | None:
        """Return all grants if all leases are free and no process waits for one; otherwise return None at once."""
        owner = threading.current_thread()
        return self._granted(lambda engine: self._settings.try_acquire(engine, owner), [])

    def acquire(self, timeout: Duration | None = None) -> Grants:
        """Wait for all leases. Raises `LeaseTimeout` after `timeout` seconds."""
        return self._acquire([], checked_timeout(timeout))

    def _acquire(self, granted: list[Grants], limit: float | None = None) -> Grants:
        owner = threading.current_thread()
        grants = self._granted(lambda engine: self._settings.acquire(engine, owner, limit), granted)
        assert grants is not None
        return grants

    def _granted(
        self, acquire: "Callable[[Engine], Awaitable[AsyncGrants | None]]", granted: list[Grants]
    ) -> Grants | None:
        """Acquire the leases, and append the grants to `granted` as soon as the grants exist. If this thread is
        interrupted, they are released."""
        thread = self._locks.loop_thread()

        async def note() -> None:
            if grants := await acquire(self._locks.engine()):
                granted.append(Grants(thread, grants))

        try:
            thread.run(note())
        except BaseException:
            for grants in granted:
                grants.release()
            raise
        return granted[0] if granted else None
