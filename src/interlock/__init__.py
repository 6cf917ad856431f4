"""Keeps the replicas of a service out of each other's way, on the database they already have."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.coordination.grant import AsyncGrant
    from interlock.coordination.lease import AsyncLease
    from interlock.coordination.root import AsyncInterlock
    from interlock.coordination.session_grant import AsyncSessionGrant
    from interlock.coordination.session_lock import AsyncSessionLock
    from interlock.coordination.session_lock_sync import SessionGrant, SessionLock
    from interlock.coordination.sync import Grant, Interlock, Lease
    from interlock.errors import InterlockError, LeaseLost
    from interlock.gate import AsyncGate, AsyncPassage, Gate, Passage, Timing, Verdict

_HOMES = {
    "AsyncGate": "interlock.gate",
    "AsyncGrant": "interlock.coordination.grant",
    "AsyncInterlock": "interlock.coordination.root",
    "AsyncLease": "interlock.coordination.lease",
    "AsyncPassage": "interlock.gate",
    "AsyncSessionGrant": "interlock.coordination.session_grant",
    "AsyncSessionLock": "interlock.coordination.session_lock",
    "Gate": "interlock.gate",
    "Grant": "interlock.coordination.sync",
    "Interlock": "interlock.coordination.sync",
    "InterlockError": "interlock.errors",
    "Lease": "interlock.coordination.sync",
    "LeaseLost": "interlock.errors",
    "Passage": "interlock.gate",
    "SessionGrant": "interlock.coordination.session_lock_sync",
    "SessionLock": "interlock.coordination.session_lock_sync",
    "Timing": "interlock.gate",
    "Verdict": "interlock.gate",
}

__all__ = [
    "AsyncGate",
    "AsyncGrant",
    "AsyncInterlock",
    "AsyncLease",
    "AsyncPassage",
    "AsyncSessionGrant",
    "AsyncSessionLock",
    "Gate",
    "Grant",
    "Interlock",
    "InterlockError",
    "Lease",
    "LeaseLost",
    "Passage",
    "SessionGrant",
    "SessionLock",
    "Timing",
    "Verdict",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Imported when first used: the command line starts without the driver."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
