"""Adapters for users' own connections, for the few statements that have to be part of users' own transactions.

No driver is imported: the names of a connection's classes show its driver. Each driver has a module in this package.
Interlock uses a sync connection in the caller's thread only, as the caller's own statements do.

The statements of one operation are written once, as a generator (`Steps`), for both kinds of connections: the caller's
thread runs the generator with a sync connection, an event loop runs it with an async connection.
"""

from interlock.user_connections.adapter import AsyncAdapter, Parameters, Rows, SyncAdapter
from interlock.user_connections.execution import Steps, code_of, run_steps, run_steps_sync
from interlock.user_connections.registry import async_adapter, find_kind, sync_adapter

__all__ = [
    "AsyncAdapter",
    "Parameters",
    "Rows",
    "Steps",
    "SyncAdapter",
    "async_adapter",
    "code_of",
    "find_kind",
    "run_steps",
    "run_steps_sync",
    "sync_adapter",
]
