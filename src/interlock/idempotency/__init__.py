"""Operations that may be repeated, on the user's connection, in the user's transaction.

Work that runs again after a crash (an activity, a message, a request) finds the effects of its earlier run. Each
operation here distinguishes three cases, returns the case (`Done`, `Replayed`, `Refused`) and logs it. A statement of
the database always decides: a constraint, or a condition in the WHERE of the write itself; never a read beforehand.

The operations work on the user's tables and need nothing of Interlock's in the database. `once` of the root object
records an operation in Interlock's own table.
"""

from interlock.idempotency.decisions import Decision, Done, Refused, Replayed
from interlock.idempotency.events import EventLog
from interlock.idempotency.machine import StateMachine
from interlock.idempotency.table import Table

__all__ = ["Decision", "Done", "EventLog", "Refused", "Replayed", "StateMachine", "Table"]
