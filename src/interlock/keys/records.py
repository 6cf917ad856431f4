"""The keys that a database knows."""

import secrets
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from interlock.keys.key import digest, new_key
from interlock.names import plain_name
from interlock.stores.postgres import Session
from interlock.stores.postgres.queries import Queries


@dataclass(frozen=True)
class KeyRecord:
    """`last_used_at` is right to the minute."""

    id: str
    name: str
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


class Keys:
    """Those in one schema. Each statement commits on its own."""

    def __init__(self, schema: str) -> None:
        self._sql = _queries(schema)

    async def create(self, session: Session, name: str) -> tuple[str, KeyRecord]:
        """The key itself, which nobody can tell afterwards. Raises InvalidName."""
        key = new_key()
        return key, await self.make_known(session, key, plain_name(name))

    async def make_known(self, session: Session, key: str, name: str) -> KeyRecord:
        """A key that somebody has. One that was revoked stays so."""
        await session.execute(self._sql["insert"], secrets.token_hex(6), name, digest(key))
        row = await session.fetchrow(self._sql["read"], digest(key))
        assert row is not None  # keys are never deleted
        return KeyRecord(*row)

    async def use(self, session: Session, key: str) -> str | None:
        """Its id; None if it is not known, or was revoked."""
        found: str | None = await session.fetchval(self._sql["use"], digest(key))
        return found

    async def list(self, session: Session) -> list[KeyRecord]:
        return [KeyRecord(*row) for row in await session.fetch(self._sql["list"])]

    async def revoke(self, session: Session, id: str) -> KeyRecord | None:  # noqa: A002
        """From now on; None if there is no such key."""
        row = await session.fetchrow(self._sql["revoke"], id)
        return KeyRecord(*row) if row else None


@cache
def _queries(schema: str) -> Queries:
    return Queries("interlock.keys", "queries.sql", schema)
