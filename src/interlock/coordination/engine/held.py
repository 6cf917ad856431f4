"""The grants that this process holds, and the one place where a held grant becomes a lost one."""

from collections.abc import Iterator

from interlock.clock import boottime
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.reasons import Loss
from interlock.coordination.lease.times import LeaseTiming
from interlock.coordination.observation.observer import Observer


class HeldGrants:
    """The held grants. `by_timing` groups them by their timing; the grants of a group share their renewals."""

    def __init__(self, observer: Observer) -> None:
        self.by_timing: dict[LeaseTiming, set[AsyncGrant]] = {}
        self._owners: set[tuple[object, str]] = set()
        self._observer = observer

    def __len__(self) -> int:
        return sum(map(len, self.by_timing.values()))

    def __iter__(self) -> Iterator[AsyncGrant]:
        """Iterate over a copy, because the caller may remove grants meanwhile."""
        return iter([grant for grants in self.by_timing.values() for grant in grants])

    def includes(self, owner: object, name: str) -> bool:
        """Return True if that task or thread holds the lease, as far as this process knows."""
        return (owner, name) in self._owners

    def add(self, grant: AsyncGrant) -> None:
        self._owners.add((grant.owner, grant.name))
        grants = self.by_timing.get(grant.timing)
        if grants is None:
            grants = self.by_timing[grant.timing] = set()
        grants.add(grant)

    def remove(self, grant: AsyncGrant) -> None:
        if grants := self.by_timing.get(grant.timing):
            grants.discard(grant)
            if not grants:
                del self.by_timing[grant.timing]
        self._owners.discard((grant.owner, grant.name))

    def lose(self, grant: AsyncGrant, why: Loss) -> None:
        """End a grant as lost. Does nothing if the grant has ended already."""
        if grant.finish(why):
            self.report_loss(grant, why)

    def report_loss(self, grant: AsyncGrant, why: Loss) -> None:
        """Remove a grant that was lost; notify the observer, and call the grant's own callbacks."""
        self.remove(grant)
        try:
            self._observer.lost(grant.name, grant.token, boottime() - grant.acquired_at, why, grant.broken_by)
        finally:
            grant.notify_lost(why)
