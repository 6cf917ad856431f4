"""tooz's leaders: the holder of a group's lease leads the group. A member tries for the lease in `run_watchers`."""

import json

from interlock.coordination.engine.engine import Engine
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.lease import LeaseSettings
from interlock.integrations.tooz import lease_names


class Leaders:
    """The leases by which this member leads groups. All methods run on one event loop."""

    def __init__(self, engine: Engine, member_id: bytes, ttl: float) -> None:
        self._engine = engine
        self._member_id = member_id
        self._ttl = ttl
        self._terms: dict[bytes, AsyncGrant] = {}

    async def elected(self, group: bytes) -> bool:
        """Try to become the leader. Returns True if a term of this member has just begun."""
        term = self._terms.get(group)
        if term is not None and not term.lost:
            return False
        term = await self._settings(group).try_acquire(self._engine, object(), AsyncGrant)
        if term is None:
            return False
        self._terms[group] = term
        return True

    async def stand_down(self, group: bytes) -> bool:
        """Release the leadership. Returns False if this member did not lead."""
        term = self._terms.pop(group, None)
        return term is not None and await term.release()

    async def leader(self, group: bytes) -> bytes | None:
        holders = await self._settings(group).holders(self._engine)
        return lease_names.unquoted(json.loads(holders[0].metadata or "{}")["member"]) if holders else None

    def drop_all(self) -> bool:
        """Give up all leaderships without waiting for the releases. Returns False if this member led no group."""
        terms = list(self._terms.values())
        self._terms.clear()
        for term in terms:
            self._engine.drop(term)
        return bool(terms)

    def _settings(self, group: bytes) -> LeaseSettings:
        metadata = {"member": lease_names.quoted(self._member_id)}
        return LeaseSettings(lease_names.leader(group), self._ttl, None, None, metadata, own=True)
