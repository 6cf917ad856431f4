"""Advisory lock keys: always two 32-bit integers, which never collide with keys that are one 64-bit integer."""

import hashlib
import struct
from typing import NamedTuple


class AdvisoryKey(NamedTuple):
    """The two integers that ``pg_locks`` shows as `classid` and `objid`, where it prints them as unsigned."""

    first: int
    second: int

    @classmethod
    def of(cls, *parts: str) -> "AdvisoryKey":
        """Returns a key whose 64 bits are a hash of the parts, so that two names do not collide by accident."""
        digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
        return cls(*struct.unpack(">ii", digest))

    def __str__(self) -> str:
        return f"{self.first}, {self.second}"

    @property
    def shown(self) -> str:
        """The key as ``pg_locks`` shows it."""
        return f"{self.first & 0xFFFFFFFF}, {self.second & 0xFFFFFFFF}"


HOLDERS = """
SELECT l.pid
  FROM pg_locks l
 WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND l.classid::bigint = ($1::integer::bigint & 4294967295)
   AND l.objid::bigint = ($2::integer::bigint & 4294967295)
"""
"""Selects the server processes that hold an advisory key of two integers. pg_locks shows them as unsigned."""
