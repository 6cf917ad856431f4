"""Coordination for the replicas of a service, on the database that they already have."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.coordination.claims import AsyncClaims, Claimed, Claims, Pending, Released, Taken
    from interlock.coordination.lease.grant import AsyncGrant
    from interlock.coordination.lease.lease import AsyncLease
    from interlock.coordination.lease.several import AsyncGrants, AsyncLeases
    from interlock.coordination.primitives.election import AsyncElection, AsyncTerm
    from interlock.coordination.primitives.membership import AsyncMembership, Member
    from interlock.coordination.primitives.periodic import AsyncPeriodic
    from interlock.coordination.primitives.shared import AsyncShared
    from interlock.coordination.root import AsyncInterlock
    from interlock.coordination.session_lock.grant import AsyncSessionGrant
    from interlock.coordination.session_lock.lock import AsyncSessionLock
    from interlock.coordination.sync.election import Election, Term
    from interlock.coordination.sync.grant import Grant
    from interlock.coordination.sync.lease import Lease
    from interlock.coordination.sync.membership import Membership
    from interlock.coordination.sync.periodic import Periodic
    from interlock.coordination.sync.root import Interlock
    from interlock.coordination.sync.session_lock import SessionGrant, SessionLock
    from interlock.coordination.sync.several import Grants, Leases
    from interlock.coordination.sync.shared import Shared
    from interlock.durable.attempt import Attempt
    from interlock.durable.declarations import Orchestrations, Retry
    from interlock.durable.replica import AsyncDurable
    from interlock.durable.run import Run
    from interlock.durable.sync import Durable
    from interlock.errors import (
        ActivityFailed,
        DoNotRetry,
        InterlockError,
        LeaseLost,
        OnceConflict,
        OrchestrationCancelled,
        OrchestrationFailed,
    )
    from interlock.gate import AsyncGate, AsyncPassage, Gate, Passage, Timing, Verdict
    from interlock.idempotency import StateMachine
    from interlock.stores.capabilities import HeldLease

_MODULES = {
    "AsyncClaims": "interlock.coordination.claims",
    "ActivityFailed": "interlock.errors",
    "AsyncDurable": "interlock.durable.replica",
    "AsyncElection": "interlock.coordination.primitives.election",
    "AsyncGate": "interlock.gate",
    "AsyncGrant": "interlock.coordination.lease.grant",
    "AsyncGrants": "interlock.coordination.lease.several",
    "AsyncInterlock": "interlock.coordination.root",
    "AsyncLease": "interlock.coordination.lease.lease",
    "AsyncLeases": "interlock.coordination.lease.several",
    "AsyncMembership": "interlock.coordination.primitives.membership",
    "AsyncPassage": "interlock.gate",
    "AsyncPeriodic": "interlock.coordination.primitives.periodic",
    "AsyncSessionGrant": "interlock.coordination.session_lock.grant",
    "AsyncSessionLock": "interlock.coordination.session_lock.lock",
    "AsyncShared": "interlock.coordination.primitives.shared",
    "AsyncTerm": "interlock.coordination.primitives.election",
    "Claimed": "interlock.coordination.claims",
    "Claims": "interlock.coordination.claims",
    "Attempt": "interlock.durable.attempt",
    "DoNotRetry": "interlock.errors",
    "Durable": "interlock.durable.sync",
    "Election": "interlock.coordination.sync.election",
    "Gate": "interlock.gate",
    "Grant": "interlock.coordination.sync.grant",
    "Grants": "interlock.coordination.sync.several",
    "HeldLease": "interlock.stores.capabilities",
    "Interlock": "interlock.coordination.sync.root",
    "InterlockError": "interlock.errors",
    "Lease": "interlock.coordination.sync.lease",
    "LeaseLost": "interlock.errors",
    "Leases": "interlock.coordination.sync.several",
    "Member": "interlock.coordination.primitives.membership",
    "Membership": "interlock.coordination.sync.membership",
    "OnceConflict": "interlock.errors",
    "OrchestrationCancelled": "interlock.errors",
    "OrchestrationFailed": "interlock.errors",
    "Orchestrations": "interlock.durable.declarations",
    "Passage": "interlock.gate",
    "Pending": "interlock.coordination.claims",
    "Periodic": "interlock.coordination.sync.periodic",
    "Released": "interlock.coordination.claims",
    "Retry": "interlock.durable.declarations",
    "Run": "interlock.durable.run",
    "SessionGrant": "interlock.coordination.sync.session_lock",
    "SessionLock": "interlock.coordination.sync.session_lock",
    "Shared": "interlock.coordination.sync.shared",
    "StateMachine": "interlock.idempotency",
    "Taken": "interlock.coordination.claims",
    "Term": "interlock.coordination.sync.election",
    "Timing": "interlock.gate",
    "Verdict": "interlock.gate",
}

__all__ = [
    "ActivityFailed",
    "AsyncClaims",
    "AsyncDurable",
    "AsyncElection",
    "AsyncGate",
    "AsyncGrant",
    "AsyncGrants",
    "AsyncInterlock",
    "AsyncLease",
    "AsyncLeases",
    "AsyncMembership",
    "AsyncPassage",
    "AsyncPeriodic",
    "AsyncSessionGrant",
    "AsyncSessionLock",
    "AsyncShared",
    "AsyncTerm",
    "Attempt",
    "Claimed",
    "Claims",
    "DoNotRetry",
    "Durable",
    "Election",
    "Gate",
    "Grant",
    "Grants",
    "HeldLease",
    "Interlock",
    "InterlockError",
    "Lease",
    "LeaseLost",
    "Leases",
    "Member",
    "Membership",
    "OnceConflict",
    "OrchestrationCancelled",
    "OrchestrationFailed",
    "Orchestrations",
    "Passage",
    "Pending",
    "Periodic",
    "Released",
    "Retry",
    "Run",
    "SessionGrant",
    "SessionLock",
    "Shared",
    "StateMachine",
    "Taken",
    "Term",
    "Timing",
    "Verdict",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that the command line starts without the database driver."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
