"""Keeps the replicas of a service out of each other's way, on the database they already have."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.coordination.claims import AsyncClaims, Claimed, Claims, Pending, Released, Taken
    from interlock.coordination.election import AsyncElection, AsyncTerm
    from interlock.coordination.election_sync import Election, Term
    from interlock.coordination.grant import AsyncGrant
    from interlock.coordination.grant_sync import Grant
    from interlock.coordination.lease import AsyncLease
    from interlock.coordination.lease_sync import Lease
    from interlock.coordination.membership import AsyncMembership, Member
    from interlock.coordination.membership_sync import Membership
    from interlock.coordination.periodic import AsyncPeriodic
    from interlock.coordination.periodic_sync import Periodic
    from interlock.coordination.root import AsyncInterlock
    from interlock.coordination.root_sync import Interlock
    from interlock.coordination.session_grant import AsyncSessionGrant
    from interlock.coordination.session_lock import AsyncSessionLock
    from interlock.coordination.session_lock_sync import SessionGrant, SessionLock
    from interlock.coordination.several import AsyncGrants, AsyncLeases
    from interlock.coordination.several_sync import Grants, Leases
    from interlock.coordination.shared import AsyncShared
    from interlock.coordination.shared_sync import Shared
    from interlock.durable.attempt import Attempt
    from interlock.durable.declared import Orchestrations
    from interlock.durable.replica import AsyncDurable
    from interlock.durable.retrying import Retry
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
    from interlock.stores.listing import HeldLease

_HOMES = {
    "AsyncClaims": "interlock.coordination.claims",
    "ActivityFailed": "interlock.errors",
    "AsyncDurable": "interlock.durable.replica",
    "AsyncElection": "interlock.coordination.election",
    "AsyncGate": "interlock.gate",
    "AsyncGrant": "interlock.coordination.grant",
    "AsyncGrants": "interlock.coordination.several",
    "AsyncInterlock": "interlock.coordination.root",
    "AsyncLease": "interlock.coordination.lease",
    "AsyncLeases": "interlock.coordination.several",
    "AsyncMembership": "interlock.coordination.membership",
    "AsyncPassage": "interlock.gate",
    "AsyncPeriodic": "interlock.coordination.periodic",
    "AsyncSessionGrant": "interlock.coordination.session_grant",
    "AsyncSessionLock": "interlock.coordination.session_lock",
    "AsyncShared": "interlock.coordination.shared",
    "AsyncTerm": "interlock.coordination.election",
    "Claimed": "interlock.coordination.claims",
    "Claims": "interlock.coordination.claims",
    "Attempt": "interlock.durable.attempt",
    "DoNotRetry": "interlock.errors",
    "Durable": "interlock.durable.sync",
    "Election": "interlock.coordination.election_sync",
    "Gate": "interlock.gate",
    "Grant": "interlock.coordination.grant_sync",
    "Grants": "interlock.coordination.several_sync",
    "HeldLease": "interlock.stores.listing",
    "Interlock": "interlock.coordination.root_sync",
    "InterlockError": "interlock.errors",
    "Lease": "interlock.coordination.lease_sync",
    "LeaseLost": "interlock.errors",
    "Leases": "interlock.coordination.several_sync",
    "Member": "interlock.coordination.membership",
    "Membership": "interlock.coordination.membership_sync",
    "OnceConflict": "interlock.errors",
    "OrchestrationCancelled": "interlock.errors",
    "OrchestrationFailed": "interlock.errors",
    "Orchestrations": "interlock.durable.declared",
    "Passage": "interlock.gate",
    "Pending": "interlock.coordination.claims",
    "Periodic": "interlock.coordination.periodic_sync",
    "Released": "interlock.coordination.claims",
    "Retry": "interlock.durable.retrying",
    "Run": "interlock.durable.run",
    "SessionGrant": "interlock.coordination.session_lock_sync",
    "SessionLock": "interlock.coordination.session_lock_sync",
    "Shared": "interlock.coordination.shared_sync",
    "StateMachine": "interlock.idempotency",
    "Taken": "interlock.coordination.claims",
    "Term": "interlock.coordination.election_sync",
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
    """Imported when first used: the command line starts without the driver."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
