"""tooz's locks: each is a lease, renewed by itself as long as the process lives."""

import threading
from typing import TYPE_CHECKING

import tooz
from tooz import locking, utils

from interlock.coordination.lease import LeaseSettings
from interlock.coordination.sync import Grant, Lease
from interlock.errors import LeaseTimeout
from interlock.integrations.tooz import naming
from interlock.integrations.tooz.failing import translated

if TYPE_CHECKING:
    from interlock.integrations.tooz.driver import InterlockDriver


class LeaseLock(locking.Lock):
    """May be shared by threads: what each acquired is its own, and is what it releases."""

    def __init__(self, driver: "InterlockDriver", name: bytes, ttl: float) -> None:
        super().__init__(name)
        self._driver = driver
        with translated():
            settings = LeaseSettings(naming.lock(name), ttl, None, None, None, own=True)
        self._lease = Lease(driver.locks, settings)
        self._grants: dict[threading.Thread, Grant] = {}

    @property
    def grant(self) -> Grant | None:
        """What this thread holds: its token, and a guard for a transaction (docs/guard.md)."""
        return self._grants.get(threading.current_thread())

    @property
    def acquired(self) -> bool:
        return any(not grant.lost for grant in list(self._grants.values()))

    def is_still_owner(self) -> bool:
        """Asks nobody: this machine's clock knows how long the lease may be trusted."""
        return self.grant is not None and not self.grant.lost

    def acquire(self, blocking: bool | float = True, shared: bool = False, timeout: float | None = None) -> bool:
        if shared:
            raise tooz.NotImplemented("A lease has one holder: this driver has no shared locks.")
        waits, patience = utils.convert_blocking(blocking, timeout)
        with translated():
            try:
                grant = self._lease.acquire(patience) if waits else self._lease.try_acquire()
            except LeaseTimeout:
                return False
        if grant is None:
            return False
        self._grants[threading.current_thread()] = grant
        return True

    def release(self) -> bool:
        """What this thread has acquired; if that is nothing, what another has, as `threading.Lock` would."""
        grant = self._grants.pop(threading.current_thread(), None)
        try:
            grant = grant or self._grants.popitem()[1]
        except KeyError:
            return False
        with translated():
            return grant.release()

    def break_(self) -> bool:
        return self._driver.take_away(self._lease.name)
