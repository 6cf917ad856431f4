"""tooz's leaders: whoever holds the group's lease leads, and tries for it whenever its watchers are run."""

import json

from interlock.coordination.engine.engine import Engine
from interlock.coordination.lease.grant import AsyncGrant
from interlock.coordination.lease.lease import LeaseSettings
from interlock.integrations.tooz import lease_names


class Leading:
    """All of it on one event loop."""

    def __init__(self, engine: Engine, member_id: bytes, ttl: float) -> None:
        self._engine = engine
        self._member_id = member_id
        self._ttl = ttl
        self._terms: dict[bytes, AsyncGrant] = {}

    async def elected(self, group: bytes) -> bool:
        """Whether a term of ours began just now."""
        term = self._terms.get(group)
        if term is not None and not term.lost:
            return False
        term = await self._settings(group).try_acquire(self._engine, object(), AsyncGrant)
        if term is None:
            return False
        self._terms[group] = term
        return True

    async def stand_down(self, group: bytes) -> bool:
        """False: we did not lead."""
        term = self._terms.pop(group, None)
        return term is not None and await term.release()

    async def leader(self, group: bytes) -> bytes | None:
        holders = await self._settings(group).holders(self._engine)
        return lease_names.unquoted(json.loads(holders[0].metadata or "{}")["member"]) if holders else None

    def drop_all(self) -> bool:
        """Lead no more, without waiting for that. False: there was nothing to drop."""
        terms = list(self._terms.values())
        self._terms.clear()
        for term in terms:
            self._engine.drop(term)
        return bool(terms)

    def _settings(self, group: bytes) -> LeaseSettings:
        told = {"member": lease_names.quoted(self._member_id)}
        return LeaseSettings(lease_names.leader(group), self._ttl, None, None, told, own=True)
