"""Claims: each name has at most one owner.

An owner claims a name in the transaction that creates the resource, and releases the name once the resource is gone. A
lease belongs to a process and ends with its ttl; a claim belongs to data and has no ttl. A unique index decides between
claims. The functions of the migration `0005_claims` do the work, so each operation takes one round trip.

**Rules.** Any owner may claim a free name. While a transaction that claims or releases the name is open, other claims
get `Pending`, at once or after the timeout that their caller gave. A claim never waits without limit. No statement
fails because of another transaction, since that would abort the caller's own transaction. Only the owner can release or
transfer a name.

**After a crash** there is nothing to clean up: a claim is part of the caller's transaction.
"""

from interlock.coordination.claims.results import Claimed, Free, Kept, NotClaimed, Pending, Released, Taken
from interlock.coordination.claims.scope import AsyncClaims, Claims
from interlock.names import dns_label, host_name

__all__ = [
    "AsyncClaims",
    "Claimed",
    "Claims",
    "Free",
    "Kept",
    "NotClaimed",
    "Pending",
    "Released",
    "Taken",
    "dns_label",
    "host_name",
]
