"""Adapters for users' own connections, for the few statements that belong into users' own transactions.

No driver is imported: a connection is recognised by the names of its classes. Each driver has a module here. A sync
connection is used in the caller's thread only, as the caller's own statements are.

The statements of one operation are written once, as a generator (`Steps`), which serves both kinds of connections: the
caller's thread runs it with a sync connection, an event loop runs it with an async one.
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
