"""Stops what a migration has running on the server as soon as its gate is lost.

Nothing can interrupt a thread that waits inside a driver. So the migration's connections are noted before each
statement, and when the gate is lost they are taken from under it: the statement that runs is cancelled, and the
connection is cut, so that no later statement, and no COMMIT, gets through either.

=====================  ===========================================================================
psycopg, psycopg2      cancel request, then the socket is shut down
asyncpg                the task that waits is cancelled: asyncpg then cancels the statement itself
others                 no further statement is begun; the one that runs is left to the successor
=====================  ===========================================================================
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
        """To be called, in the migration's thread, with the driver's connection before it sends anything."""
        # Noted first and checked second: whoever loses the gate in between finds the connection, or we find it lost.
        if id(connection) not in self._severers:
            self._severers[id(connection)] = _severer(connection)
        self._check()

    def sever(self, why: str) -> None:
        """Does not block: this is called on the thread that keeps the gate."""
        severers = list(self._severers.values())
        log.error("migration.severed", extra={"why": why, "connections": len(severers)})
        for sever in severers:
            threading.Thread(target=sever, name="interlock-sever", daemon=True).start()

    def forget(self) -> None:
        """The migration has ended: its connections may serve others from now on."""
        self._severers.clear()


def _severer(connection: Any) -> Callable[[], object]:
    """What severs the connection. It keeps the connection alive, and so its id unique."""
    if hasattr(connection, "fileno"):
        return partial(_cancel_and_cut, connection)
    try:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
    except RuntimeError:
        task = None
    return partial(_cancel_task, loop, task) if task else partial(_leave, connection)


def _cancel_and_cut(connection: Any) -> None:
    """First the statement and then the wire: a client that sees its wire cut forgets what a cancel request needs."""
    canceller = threading.Thread(target=_cancel, args=(connection,), name="interlock-cancel", daemon=True)
    canceller.start()
    canceller.join(_CANCEL_WITHIN)  # where the network is cut, a cancel request waits for ever
    with suppress(Exception), socket.socket(fileno=os.dup(connection.fileno())) as wire:  # closed meanwhile: as good
        wire.shutdown(socket.SHUT_RDWR)


def _cancel(connection: Any) -> None:
    cancel = getattr(connection, "cancel_safe", connection.cancel)  # psycopg's newer way also encrypts the request
    with suppress(Exception):  # of any driver; the wire is cut in any case
        (connection.cancel if inspect.iscoroutinefunction(cancel) else cancel)()


def _cancel_task(loop: asyncio.AbstractEventLoop, task: "asyncio.Task[Any]") -> None:
    with suppress(RuntimeError):  # the loop has ended, and the task with it
        loop.call_soon_threadsafe(task.cancel, "the migration gate was lost")


def _leave(connection: Any) -> None:
    log.warning("migration.not_severed", extra={"driver": type(connection).__module__})
