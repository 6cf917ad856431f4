"""A grant for callers without an event loop: it lives on the loop thread of the root object."""

import asyncio
import functools
from collections.abc import Callable
from typing import Any, Self
from uuid import UUID

from interlock.bridge import LoopThread, Request, completed
from interlock.coordination.lease.grant import AsyncGrant
from interlock.errors import ConfigurationError
from interlock.stores.leases import ReleaseAnswer


class Grant:
    """Like `AsyncGrant`, with blocking methods. A lost lease cannot cancel a thread: call `check()` between steps, or
    use `on_lost`. If the lease was lost, the end of the block raises `LeaseLost` too."""

    __slots__ = ("_confirm_release", "_grant", "_left", "_thread")

    def __init__(self, thread: LoopThread, grant: AsyncGrant, *, confirm_release: bool = True) -> None:
        self._thread = thread
        self._grant = grant
        self._confirm_release = confirm_release
        self._left = False

    def __repr__(self) -> str:
        return repr(self._grant)

    @property
    def name(self) -> str:
        return self._grant.name

    @property
    def token(self) -> int:
        return self._grant.token

    @property
    def grant_id(self) -> UUID:
        return self._grant.grant_id

    @property
    def ttl(self) -> float:
        return self._grant.ttl

    @property
    def schema(self) -> str:
        return self._grant.schema

    @property
    def lost(self) -> bool:
        return self._grant.lost

    @property
    def remaining(self) -> float:
        return 0.0 if self._left else self._grant.remaining

    def check(self) -> None:
        """Raise `LeaseLost` if the lease is not held any more."""
        if self._left and not self._grant.ended:  # the loop has not handled the release yet
            raise self._grant.error_of("released")
        self._grant.check()

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Call the callback with the reason when the lease is lost, on the loop's thread. The callback must not block
        for long."""
        if self._grant.ended or self._grant.is_detached:
            self._grant.on_lost(callback)
        else:
            self._thread.run(self._listen(callback))

    def guard(self, connection: Any = None) -> None:
        """Let the connection's open transaction commit only while this grant is current; see docs/how-to/guard.md."""
        self._grant.guards.guard_sync(self, connection)

    def guard_item(self) -> dict[str, Any]:
        """Return an item for the TransactItems of your own TransactWriteItems; see docs/how-to/dynamodb.md."""
        return self._grant.guard_item()

    def release(self) -> bool:
        if self._grant.is_detached:
            return False
        try:
            return self._thread.send(_ReleaseRequest(self._grant))
        except ConfigurationError:
            if self._thread.is_closing:  # closing releases it
                return False
            raise

    def drop(self) -> None:
        """Release the lease and do not wait for the answer. Does nothing if the grant has ended. This method is used
        after an interrupt."""
        if not (self._grant.ended or self._grant.is_detached):
            self._thread.post(functools.partial(self._grant.engine.drop, self._grant))

    def hand_over(self) -> bool:
        if self._grant.is_detached:
            raise self._grant.error()
        return self._thread.run(self._grant.hand_over())

    async def _listen(self, callback: Callable[[str], object]) -> None:
        """Add the callback on the loop's thread. Losses are notified on that thread too, so no loss can come in
        between."""
        self._grant.on_lost(callback)

    def __enter__(self) -> Self:
        if not self._grant.is_held:  # it was lost between the grant and this block
            self.release()
            raise self._grant.error()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool | None:
        try:
            released_before = self._grant.is_released
            held = self.release() if self._confirm_release else self._release_unconfirmed()
        except BaseException:
            self.drop()
            raise
        if not held and not released_before:
            raise self._grant.error() from error
        return None

    def _release_unconfirmed(self) -> bool:
        """Send the release and do not wait for its answer. Returns False if the lease is known to be lost."""
        if not self._grant.is_held or self._grant.engine.closed:
            return self.release()
        self._left = True
        self._thread.post(functools.partial(self._grant.engine.release_unconfirmed, self._grant))
        return True


class _ReleaseRequest(Request[bool]):
    """The request that releases a grant, handled on the loop's thread."""

    def __init__(self, grant: AsyncGrant) -> None:
        self._grant = grant
        self._response: asyncio.Future[tuple[ReleaseAnswer, float]] | None = None

    def send(self) -> "asyncio.Future[Any]":
        self._response = self._grant.engine.begin_release(self._grant)
        return self._response or completed()

    def receive(self) -> bool:
        return self._response is not None and self._grant.engine.finish_release(self._grant, self._response)
