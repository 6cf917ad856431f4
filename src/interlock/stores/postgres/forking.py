"""Forked children let go of the sessions that are their parent's.

A child has a copy of every socket. As long as that is open, the server does not hear that the parent has died, and the
parent's locks stay. And a goodbye that the child says there would be the parent's.
"""

import os
from weakref import WeakSet

from interlock.stores.postgres.session import Session

_sessions: "WeakSet[Session]" = WeakSet()


def closed_in_children(session: Session) -> Session:
    _sessions.add(session)
    return session


def _close_all() -> None:
    for session in list(_sessions):
        session.sever()


os.register_at_fork(after_in_child=_close_all)
