"""Users' own connections, of many kinds, for the few statements that belong into users' own transactions.

None of their packages is imported: a connection says itself what it is. A file for each kind. A sync connection is used
in the caller's thread and nowhere else, as its own statements are.

What is to be asked is written once, as a generator of questions (`Steps`), and serves both: the caller's thread walks
through it with a sync connection, an event loop with an async one.
"""

from interlock.connections.codes import code_of
from interlock.connections.execution import Steps, ask, ask_sync
from interlock.connections.kinds import async_use, recognised, sync_use
from interlock.connections.use import AsyncUse, Parameters, Rows, SyncUse

__all__ = [
    "AsyncUse",
    "Parameters",
    "Rows",
    "Steps",
    "SyncUse",
    "ask",
    "ask_sync",
    "async_use",
    "code_of",
    "recognised",
    "sync_use",
]
