"""Operations that may be repeated: on the user's own connection, in the user's own transaction.

Whatever runs again after a crash (an activity, a message, a request) meets what it has done before. Each operation here
tells the three cases apart, returns which it was (`Done`, `Replayed`, `Refused`) and logs it. What decides is always a
statement of the database: a constraint, or a condition in the WHERE of the write itself; never a look beforehand.

They work on users' own tables and need nothing of Interlock's in the database. What is done once and recorded in
Interlock's own table is `once` of the root object.
"""

from interlock.idempotency.decisions import Decision, Done, Refused, Replayed
from interlock.idempotency.events import EventLog
from interlock.idempotency.machine import StateMachine
from interlock.idempotency.table import Table

__all__ = ["Decision", "Done", "EventLog", "Refused", "Replayed", "StateMachine", "Table"]
