"""Termination of a migration's statements on the server as soon as its gate is lost.

A thread that waits inside a driver cannot be interrupted. So the migration's connections are recorded before each
statement. When the gate is lost, the running statement is cancelled and the connection is cut, so that no later
statement and no COMMIT reaches the server.

- psycopg, psycopg2: a cancel request is sent, then the socket is shut down.
- asyncpg: the waiting task is cancelled; asyncpg then cancels the statement itself.
- other drivers: no further statement is started; the successor has to end the statement that still runs.
"""

import asyncio
import inspect
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from interlock.logs import events

log = events(__name__)

_CANCEL_WITHIN = 1.0


class Connections:
    """The connections of one migration. `check` raises once the gate is lost."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._severers: dict[int, Callable[[], object]] = {}

    def before_statement(self, connection: Any) -> None:
        """Call this in the migration's thread, with the driver's connection, before each statement."""
        # Recorded first and checked second: if the gate is lost in between, `sever` finds the connection.
        if id(connection) not in self._severers:
            self._severers[id(connection)] = _severer(connection)
        self._check()

    def sever(self, why: str) -> None:
        """Sever all recorded connections. Does not block, because the thread that renews the gate calls it."""
        severers = list(self._severers.values())
        log.error("migration.severed", extra={"why": why, "connections": len(severers)})
        for sever in severers:
            threading.Thread(target=sever, name="interlock-sever", daemon=True).start()

    def forget(self) -> None:
        """Forget the connections after the end of the migration: they may be used for other work."""
        self._severers.clear()


def _severer(connection: Any) -> Callable[[], object]:
    """Returns a function that severs the connection. The function keeps a reference to the connection, so that the
    connection's `id` stays unique."""
    if hasattr(connection, "fileno"):
        return partial(_cancel_and_cut, connection)
    try:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
    except RuntimeError:
        task = None
    return partial(_cancel_task, loop, task) if task else partial(_warn, connection)


def _cancel_and_cut(connection: Any) -> None:
    """Cancel the statement, then shut the socket down. In the opposite order a driver could notice the shutdown and
    forget the key that a cancel request needs."""
    canceller = threading.Thread(target=_cancel, args=(connection,), name="interlock-cancel", daemon=True)
    canceller.start()
    canceller.join(_CANCEL_WITHIN)  # on a broken network a cancel request waits without limit
    # An error means that the connection is closed already.
    with suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)


def _cancel(connection: Any) -> None:
    cancel = getattr(connection, "cancel_safe", connection.cancel)  # psycopg's newer method also encrypts the request
    with suppress(Exception):  # an error of any driver; the connection is cut in any case
        (connection.cancel if inspect.iscoroutinefunction(cancel) else cancel)()


def _cancel_task(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[Any]") -> None:
    with suppress(RuntimeError):  # the loop has ended, and the task with it
        loop.call_soon_threadsafe(task.cancel, "the migration gate was lost")


def _warn(connection: Any) -> None:
    log.warning("migration.not_severed", extra={"driver": type(connection).__module__})
