"""The HTTP protocol of client connections, with a limit on their number and a timeout for the head of a request.

uvicorn waits without limit for the rest of a request, and for a request that never comes, on any number of
connections. Each connection is an open file of this process. A process that may open no more files cannot connect to
its database either. So without these limits any client that reaches the port, even without a key, could stop the work
on all instances.
"""

import asyncio
import resource

from uvicorn.protocols.http.h11_impl import H11Protocol

from interlock.clock import boottime
from interlock.logs import events

log = events(__name__)

HEAD_TIMEOUT = 20.0
"""Seconds for a request's first line and headers. A body is only read from clients with a key."""
_UNLIMITED = 10_000
_WARNING_INTERVAL = 60.0


def most_connections() -> int:
    """Returns the maximum number of connections: half of the files that this process may open, and 10,000 at most."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _UNLIMITED if files == resource.RLIM_INFINITY else min(files // 2, _UNLIMITED)


class HttpProtocol(H11Protocol):
    _timeout: asyncio.TimerHandle | None = None
    _warned_at = -_WARNING_INTERVAL

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            self._refuse()
        else:
            self._update_timeout()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._update_timeout()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timeout()
        super().connection_lost(exc)

    def _update_timeout(self) -> None:
        """The timeout begins with the connection and again after each answer. It is off while a request is answered."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel_timeout()
        elif self._timeout is None and not self.transport.is_closing():
            self._timeout = self.loop.call_later(HEAD_TIMEOUT, self.transport.close)

    def _cancel_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _refuse(self) -> None:
        self.transport.abort()
        if boottime() >= HttpProtocol._warned_at + _WARNING_INTERVAL:
            HttpProtocol._warned_at = boottime()
            log.warning("server.too_many_connections", extra={"most": most_connections()})
