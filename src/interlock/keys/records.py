"""Keys to the API, and their records. A key is 256 random bits.

A prefix lets operators, and scanners for leaked secrets, recognize a key.
"""

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from interlock.names import plain_name
from interlock.stores.postgres import Session
from interlock.stores.postgres.queries import Queries

_PREFIX = "ilk_"
_SHAPE = re.compile(_PREFIX + r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class KeyRecord:
    """`last_used_at` is exact to the minute."""

    id: str
    name: str
    created_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


class Keys:
    """The keys of one schema. Each statement commits on its own."""

    def __init__(self, schema: str) -> None:
        self._sql = _queries(schema)

    async def create(self, session: Session, name: str) -> tuple[str, KeyRecord]:
        """Create a key. Returns the key itself, which cannot be read later, and its record. Raises InvalidName."""
        key = new_key()
        return key, await self.register(session, key, plain_name(name))

    async def register(self, session: Session, key: str, name: str) -> KeyRecord:
        """Store a key that exists already. A revoked key stays revoked."""
        await session.execute(self._sql["insert"], secrets.token_hex(6), name, digest(key))
        row = await session.fetchrow(self._sql["read"], digest(key))
        assert row is not None  # keys are never deleted
        return KeyRecord(*row)

    async def use(self, session: Session, key: str) -> str | None:
        """Note the use of a key, and return its id; None if the key is unknown or revoked."""
        found: str | None = await session.fetchval(self._sql["use"], digest(key))
        return found

    async def list(self, session: Session) -> list[KeyRecord]:
        return [KeyRecord(*row) for row in await session.fetch(self._sql["list"])]

    async def revoke(self, session: Session, id: str) -> KeyRecord | None:  # noqa: A002
        """Revoke a key from now on. Returns None if there is no such key."""
        row = await session.fetchrow(self._sql["revoke"], id)
        return KeyRecord(*row) if row else None


@cache
def _queries(schema: str) -> Queries:
    return Queries("interlock.keys", "queries.sql", schema)


def new_key() -> str:
    return _PREFIX + secrets.token_urlsafe(32)


def is_key(text: str) -> bool:
    """Return True if `text` has the shape of a key."""
    return bool(_SHAPE.fullmatch(text))


def digest(key: str) -> bytes:
    """Returns the key's hash, the only part of a key that is stored; 0009_keys explains why that is enough."""
    return hashlib.sha256(key.encode()).digest()
