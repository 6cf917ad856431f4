"""tooz's locks: each is a lease, renewed by itself as long as the process lives."""

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
class _Holding:
    """What one thread has acquired. A shared lock may be acquired `times` times, and is released as often."""

    grant: Grant
    shared: bool
    times: int = 1


class LeaseLock(locking.Lock):
    """May be used by several threads: what each acquired is its own, and is what it releases.

    With `readers`, so many may share it; then who wants it alone waits for all of them, and asks for more leases.
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
        self._holdings: dict[threading.Thread, _Holding] = {}

    @property
    def grant(self) -> Grant | None:
        """What this thread holds: its token, and a guard for a transaction (docs/how-to/guard.md)."""
        holding = self._holdings.get(threading.current_thread())
        return None if holding is None else holding.grant

    @property
    def acquired(self) -> bool:
        return any(not holding.grant.lost for holding in list(self._holdings.values()))

    def is_still_owner(self) -> bool:
        """Asks nobody: this machine's clock knows how long the lease may be trusted."""
        return self.grant is not None and not self.grant.lost

    def acquire(self, blocking: bool | float = True, shared: bool = False, timeout: float | None = None) -> bool:
        ours = self._holdings.get(threading.current_thread())
        if shared and ours is not None and ours.shared and not ours.grant.lost:
            ours.times += 1
            return True
        waits, patience = utils.convert_blocking(blocking, timeout)
        lease = self._shared_lease() if shared else self._writing
        with translated():
            try:
                grant = lease.acquire(patience) if waits else lease.try_acquire()
            except LeaseTimeout:
                return False
        if grant is None:
            return False
        self._holdings[threading.current_thread()] = _Holding(grant, shared)
        return True

    def release(self) -> bool:
        """What this thread has acquired; if that is nothing, what another has, as `threading.Lock` would."""
        ours = self._holdings.get(threading.current_thread())
        if ours is not None and ours.times > 1:
            ours.times -= 1
            return not ours.grant.lost
        self._holdings.pop(threading.current_thread(), None)
        try:
            holding = ours or self._holdings.popitem()[1]
        except KeyError:
            return False
        with translated():
            return holding.grant.release()

    def break_(self) -> bool:
        """From whoever holds it alone, or from all who share it."""
        if self._reading is None:
            return self._driver.take_away(self._writing.name)
        with translated():
            held = [*self._writing.holders(), *self._reading.holders()]
        return sum(self._driver.take_away(lease.name) for lease in held) > 0

    def _shared_lease(self) -> Lease:
        if self._reading is None:
            raise tooz.NotImplemented("Locks can be shared only if the coordinator's URL says by how many: readers=20.")
        return self._reading
