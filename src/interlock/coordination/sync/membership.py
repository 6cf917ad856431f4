"""Membership for callers without an event loop."""

from typing import TYPE_CHECKING, Self

from interlock.bridge import LoopThread
from interlock.coordination.primitives.membership import AsyncMembership

if TYPE_CHECKING:
    from interlock.coordination.sync.root import Interlock


class Membership:
    """``with locks.join("workers") as member: …``; see `AsyncMembership`."""

    def __init__(self, locks: "Interlock", membership: AsyncMembership) -> None:
        self._locks = locks
        self._membership = membership
        self._thread: LoopThread | None = None

    @property
    def group(self) -> str:
        return self._membership.group

    @property
    def id(self) -> str:
        return self._membership.id

    @property
    def is_member(self) -> bool:
        """True while this process trusts its membership, by this machine's clock. Sends no request."""
        return self._membership.is_member

    def __enter__(self) -> Self:
        self._thread = self._locks.loop_thread()
        try:
            self._thread.run(self._membership.__aenter__())
        except BaseException:  # an interrupt may come when the membership has begun
            self._thread.post(self._membership.leave_soon)
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        assert self._thread is not None
        try:
            self._thread.run(self._membership.__aexit__())
        except BaseException:
            self._thread.post(self._membership.leave_soon)
            raise
