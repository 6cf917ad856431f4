"""The store's connections: the first request opens them. They are closed when this process holds no lease and waits for
none."""

import asyncio

from interlock import errors
from interlock.coordination.backends.choice import OpenStore
from interlock.coordination.engine.deferred import DeferredRequests
from interlock.coordination.engine.held import HeldGrants
from interlock.coordination.engine.queue import WaitQueue


def closed_error() -> errors.ConfigurationError:
    return errors.ConfigurationError("This Interlock was closed: open it again.")


class StoreConnections:
    """Closes connections that were not used for `idle_after` seconds. The next request opens them again."""

    def __init__(
        self, store: OpenStore, queue: WaitQueue, held: HeldGrants, deferred: DeferredRequests, idle_after: float
    ) -> None:
        self.closed = False
        self._store = store
        self._queue = queue
        self._held = held
        self._deferred = deferred
        self._idle_after = idle_after
        self._timer: asyncio.TimerHandle | None = None
        self._closing_idle: asyncio.Task[None] | None = None

    def require_open(self) -> None:
        if self.closed:
            raise closed_error()

    def use(self) -> None:
        """Start the check for idle connections. This method has to be called before each request."""
        if self._timer is None and not self.closed:
            self._timer = asyncio.get_running_loop().call_later(self._idle_after / 2, self._check_idle)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._closing_idle is not None:
            await asyncio.wait([self._closing_idle])
        await self._store.close()

    def _check_idle(self) -> None:
        self._timer = None
        if not self.closed:
            self._closing_idle = asyncio.get_running_loop().create_task(self._close_idle())

    async def _close_idle(self) -> None:
        await self._queue.unsubscribe()
        all_closed = await self._store.close_idle(self._idle_after)
        if self._held.by_timing or not all_closed or not self._deferred.is_idle:
            self.use()
