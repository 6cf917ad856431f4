"""Names that belong to somebody: claimed in the transaction that creates what they stand for, released when it is gone.

A lease belongs to a process and ends with its time; a claim belongs to data, and has no time. What decides is a unique
index; what is asked of the database is in the functions of `0005_claims`, so that one round trip is all it takes.

Who may do what. Anybody may claim a name that nobody owns. While a transaction that claims or releases it is open,
others are told `Pending`, at once or when they have waited as long as they were asked to; they never wait without end,
and no statement fails because of another's transaction, for that would cost the user's own. Only the owner releases a
name, or passes it on.

What a crash leaves behind: nothing, or what was committed. A claim is part of the user's transaction, and of no other.
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
