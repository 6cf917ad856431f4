"""Advisory lock keys: always two 32-bit integers, which never meet the keys of whoever uses one of 64 bits."""

import hashlib
import struct
from typing import NamedTuple


class AdvisoryKey(NamedTuple):
    """The pair that ``pg_locks`` shows as `classid` and `objid` (where they are printed without sign)."""

    first: int
    second: int

    @classmethod
    def of(cls, *parts: str) -> "AdvisoryKey":
        """All 64 bits come from the hash of the parts: no two names collide by accident."""
        digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
        return cls(*struct.unpack(">ii", digest))

    def __str__(self) -> str:
        return f"{self.first}, {self.second}"

    @property
    def shown(self) -> str:
        """As ``pg_locks`` shows it."""
        return f"{self.first & 0xFFFFFFFF}, {self.second & 0xFFFFFFFF}"


HOLDERS = """
SELECT l.pid
  FROM pg_locks l
 WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND l.classid::bigint = ($1::integer::bigint & 4294967295)
   AND l.objid::bigint = ($2::integer::bigint & 4294967295)
"""
"""The server processes that hold an advisory key of two integers, which pg_locks prints without their signs."""
