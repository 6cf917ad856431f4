"""tooz's locks: each is a lease that is renewed as long as the process lives."""

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import tooz
from tooz import locking, utils

from interlock.coordination.sync.grant import Grant
from interlock.coordination.sync.lease import Lease
from interlock.errors import LeaseTimeout
from interlock.integrations.tooz import lease_names
from interlock.integrations.tooz.errors import translated

if TYPE_CHECKING:
    from interlock.integrations.tooz.driver import InterlockDriver


@dataclass
class _HeldLock:
    """A lock that one thread holds. A shared lock that was acquired `times` times has to be released as often."""

    grant: Grant
    shared: bool
    times: int = 1


class LeaseLock(locking.Lock):
    """A lock that several threads may use: each thread releases the lock that it has acquired itself.

    With `readers`, so many holders may share the lock. An exclusive holder waits for all of these holders, and acquires
    several leases.
    """

    def __init__(self, driver: "InterlockDriver", name: bytes, ttl: float, readers: int | None) -> None:
        super().__init__(name)
        self._driver = driver
        self._reading: Lease | None = None
        with translated():
            if readers is None:
                self._writing = driver.locks.lease(lease_names.lock(name), ttl=ttl)
            else:
                both = driver.locks.shared(lease_names.lock(name), readers=readers, ttl=ttl)
                self._reading, self._writing = both.read(), both.write()
        self._held_locks: dict[threading.Thread, _HeldLock] = {}

    @property
    def grant(self) -> Grant | None:
        """The grant of this thread, with its token and a guard for transactions (docs/how-to/guard.md)."""
        held = self._held_locks.get(threading.current_thread())
        return None if held is None else held.grant

    @property
    def acquired(self) -> bool:
        return any(not held.grant.lost for held in list(self._held_locks.values()))

    def is_still_owner(self) -> bool:
        """Asks no database: this machine's clock shows how long the lease can be trusted."""
        return self.grant is not None and not self.grant.lost

    def acquire(self, blocking: bool | float = True, shared: bool = False, timeout: float | None = None) -> bool:
        own = self._held_locks.get(threading.current_thread())
        if shared and own is not None and own.shared and not own.grant.lost:
            own.times += 1
            return True
        waits, wait_timeout = utils.convert_blocking(blocking, timeout)
        lease = self._shared_lease() if shared else self._writing
        with translated():
            try:
                grant = lease.acquire(wait_timeout) if waits else lease.try_acquire()
            except LeaseTimeout:
                return False
        if grant is None:
            return False
        self._held_locks[threading.current_thread()] = _HeldLock(grant, shared)
        return True

    def release(self) -> bool:
        """Release this thread's lock. A thread without a lock releases another thread's lock, like `threading.Lock`."""
        own = self._held_locks.get(threading.current_thread())
        if own is not None and own.times > 1:
            own.times -= 1
            return not own.grant.lost
        self._held_locks.pop(threading.current_thread(), None)
        try:
            held = own or self._held_locks.popitem()[1]
        except KeyError:
            return False
        with translated():
            return held.grant.release()

    def break_(self) -> bool:
        """Take the lock away from its exclusive holder, or from all holders that share it."""
        if self._reading is None:
            return self._driver.take_away(self._writing.name)
        with translated():
            held = [*self._writing.holders(), *self._reading.holders()]
        return sum(self._driver.take_away(lease.name) for lease in held) > 0

    def _shared_lease(self) -> Lease:
        if self._reading is None:
            raise tooz.NotImplemented(
                "Locks can be shared only if the coordinator's URL has a maximum number of readers, such as readers=20."
            )
        return self._reading
