"""A client's connection. Whoever does not say in time what it wants is hung up on, and so is who is one too many.

uvicorn waits for ever for the rest of a request that was begun, and for one that never comes, on any number of
connections. Each is an open file of this process. When there may be no more of those, there is none for the database
either, and whoever can reach the port, with or without a key, has ended the work on all instances.
"""

import asyncio
import resource

from uvicorn.protocols.http.h11_impl import H11Protocol

from interlock.clock import boottime
from interlock.logs import events

log = events(__name__)

HEAD_WITHIN = 20.0
"""Seconds for a request's line and headers. What comes after them is read for whoever has a key."""
_UNLIMITED = 10_000
_TELL_EVERY = 60.0


def most_connections() -> int:
    """Half of the files that may be open: the other half is for everything else."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if files == resource.RLIM_INFINITY else min(files // 2, _UNLIMITED)


class HttpProtocol(H11Protocol):
    _due: asyncio.TimerHandle | None = None
    _told_at = -_TELL_EVERY

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            self._refuse()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        """From the connection on, or from the answer before; not while a request is being answered."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._due is None and not self.transport.is_closing():
            self._due = self.loop.call_later(HEAD_WITHIN, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _refuse(self) -> None:
        self.transport.abort()
        if boottime() >= HttpProtocol._told_at + _TELL_EVERY:
            HttpProtocol._told_at = boottime()
            log.warning("server.too_many_connections", extra={"most": most_connections()})
