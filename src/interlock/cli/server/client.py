"""Requests to the control plane, repeated until it has answered.

A repetition is safe. A request that changes something has its own Idempotency-Key, the same one in every attempt: the
server carries out the request once, even if several attempts reach it. So after a lost connection the client sends the
request to each known server, and then to each of them once more. If a server answers with Retry-After, the client
repeats the request for up to a minute.
"""

import json
import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException, HTTPResponse, IncompleteRead
from itertools import count
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

from interlock import __version__
from interlock.cli.server.location import ServerLocation
from interlock.cli.server.problems import error_of
from interlock.cli.server.transport import TIMEOUT, HttpRequest, reason, send
from interlock.errors import ServerUnreachable

_PREFIX = "/api/v1"
_RETRY_FOR = 60.0
"""Seconds for which requests to a server that starts, or has too much to do, are repeated."""
_RETRIED = (409, 429, 503)
_SHORTEST_TIMEOUT = 5.0
"""The least timeout of a request, in seconds, even if the deadline is nearer."""
_CHUNK = 65536

T = TypeVar("T")


class _Refused(NamedTuple):
    body: bytes


class ControlPlane:
    """Sends requests to the control plane. `notify` gets the reason of a wait, once per request. Tests replace `pause`.

    After `until`, on the monotonic clock, no request is repeated; each request still has a timeout of some seconds.
    """

    def __init__(
        self,
        location: ServerLocation,
        *,
        notify: Callable[[str], None] = lambda message: None,
        pause: Callable[[float], None] = time.sleep,
        until: float = math.inf,
    ) -> None:
        self._location = location
        self.notify = notify
        self._pause = pause
        self._until = until

    def within(self, until: float) -> "ControlPlane":
        return ControlPlane(self._location, notify=self.notify, pause=self._pause, until=until)

    def get(self, path: str, **query: Any) -> Any:
        return _content(*self._answer(self._request("GET", path, query), HTTPResponse.read))

    def change(self, method: str, path: str, body: Any = None, *, revision: int | None = None) -> Any:
        """Send a change, which the server carries out once, even if it is sent several times.

        With `revision`, the server refuses the change if the record has another revision by then.
        """
        headers = {"Idempotency-Key": f'"{uuid.uuid4()}"'}
        if revision is not None:
            headers["If-Match"] = f'"{revision}"'
        request = self._request(method, path, {}, body, headers)
        return _content(*self._answer(request, HTTPResponse.read))

    def lines(self, path: str, **query: Any) -> Iterator[str]:
        """Yields lines as they arrive, to the end of the answer. Raises ServerUnreachable if the connection is lost."""
        url, response = self._answer(self._request("GET", path, query), lambda response: response, has_end=False)
        try:
            for line in _lines(response):
                yield line.decode(errors="replace").rstrip("\r\n")
        except (OSError, HTTPException) as error:
            raise ServerUnreachable(f"The connection to {url} was lost ({reason(error)}): try again.") from error

    def _request(
        self, method: str, path: str, query: Mapping[str, Any], body: Any = None, more: Mapping[str, str] | None = None
    ) -> HttpRequest:
        given = {name: value for name, value in query.items() if value is not None}
        target = (
            f"{_PREFIX}{path}?{urlencode(given, doseq=True, errors='surrogateescape')}" if given else f"{_PREFIX}{path}"
        )
        headers = {
            "Authorization": f"Bearer {self._location.key}",
            "Connection": "close",
            "User-Agent": f"interlock/{__version__}",
            **(more or {}),
        }
        if body is None:
            return HttpRequest(method, target, None, headers)
        return HttpRequest(method, target, json.dumps(body).encode(), {**headers, "Content-Type": "application/json"})

    def _answer(
        self, request: HttpRequest, read: Callable[[HTTPResponse], T], *, has_end: bool = True
    ) -> tuple[str, T]:
        """Send the request until a server carries it out. Returns that server's URL, and the result of `read`."""
        give_up_at = time.monotonic() + _RETRY_FOR
        for attempt in count():
            url, response, result = self._send(request, read, has_end)
            if not isinstance(result, _Refused):
                return url, result
            error = error_of(response.status, result.body, url)
            retry_after = response.getheader("Retry-After")
            if response.status not in _RETRIED or retry_after is None or time.monotonic() > give_up_at:
                raise error
            if self._is_over():
                raise ServerUnreachable(str(error)) from error
            if attempt == 0:
                self.notify(f"{error} Waiting for the control plane.")
            self._pause(min(float(retry_after), 5.0) if retry_after.isdecimal() else 1.0)
        raise AssertionError("counting has no end")

    def _send(
        self, request: HttpRequest, read: Callable[[HTTPResponse], T], has_end: bool
    ) -> tuple[str, HTTPResponse, T | _Refused]:
        """Try the servers in turn. Returns the answer of the first one that answers, even if it refuses the request."""
        failure = ServerUnreachable(
            "No control plane runs on the data directory at the moment: start `interlock up`, or set INTERLOCK_SERVER "
            "to the URL of another control plane."
        )
        for url in self._attempts():
            timeout = max(_SHORTEST_TIMEOUT, min(TIMEOUT, self._until - time.monotonic()))
            try:
                response = send(url, request, timeout, timeout if has_end else None)
                is_accepted = 200 <= response.status < 300
                return url, response, read(response) if is_accepted else _Refused(response.read())
            except (OSError, HTTPException) as error:
                failure = ServerUnreachable(
                    f"No control plane answers at {url} ({reason(error)}): start `interlock up` there, or set "
                    "INTERLOCK_SERVER to the URL of another control plane."
                )
                failure.__cause__ = error
                if self._is_over():
                    break
        raise failure

    def _is_over(self) -> bool:
        return time.monotonic() > self._until

    def _attempts(self) -> Iterator[str]:
        """Yields each server's URL twice. The second round reads the addresses again: a server may have restarted."""
        yield from self._location.addresses()
        yield from self._location.addresses()


def _lines(response: HTTPResponse) -> Iterator[bytes]:
    """Yields the lines of the answer. Raises IncompleteRead if the connection is lost.

    An iteration over the response itself would take a lost connection for the end of the answer.
    """
    rest = b""
    while part := response.read1(_CHUNK):
        *lines, rest = (rest + part).split(b"\n")
        yield from lines
    if response.length:
        raise IncompleteRead(rest, response.length)
    if rest:
        yield rest


def _content(url: str, body: bytes) -> Any:
    try:
        return json.loads(body or "null")
    except ValueError:
        raise error_of(200, body, url) from None
