"""What is asked of the control plane, until it has answered.

Who may repeat what. A request that changes something carries an Idempotency-Key of its own, and keeps it through every
attempt: the server carries it out once, whichever attempt got through. So after a lost connection everything is asked
again, of each server that is known, and once more; and whoever is told to come again later does so for a while.
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
from interlock.cli.server.exchange import TIMEOUT, HttpRequest, answered, reason
from interlock.cli.server.location import Whereabouts
from interlock.cli.server.refusals import refusal
from interlock.errors import ServerUnreachable

_PREFIX = "/api/v1"
_PATIENCE = 60.0
"""Seconds that a server which starts, or has too much to do, is given."""
_LATER = (409, 429, 503)
_LEAST = 5.0
"""Seconds that a request has in any case."""
_PART = 65536

T = TypeVar("T")


class _Refused(NamedTuple):
    body: bytes


class ControlPlane:
    """`tell` is told, once a request, why its answer takes so long. `pause` is for tests.

    `until`, by the monotonic clock: what has not been answered then is given up, though each request has a few seconds.
    """

    def __init__(
        self,
        where: Whereabouts,
        *,
        tell: Callable[[str], None] = lambda said: None,
        pause: Callable[[float], None] = time.sleep,
        until: float = math.inf,
    ) -> None:
        self._where = where
        self.tell = tell
        self._pause = pause
        self._until = until

    def within(self, until: float) -> "ControlPlane":
        return ControlPlane(self._where, tell=self.tell, pause=self._pause, until=until)

    def get(self, path: str, **query: Any) -> Any:
        return _content(*self._asked(self._request("GET", path, query), HTTPResponse.read))

    def change(self, method: str, path: str, body: Any = None, *, revision: int | None = None) -> Any:
        """Carried out once, however often it has to be sent; not if the record has another `revision` by then."""
        headers = {"Idempotency-Key": f'"{uuid.uuid4()}"'}
        if revision is not None:
            headers["If-Match"] = f'"{revision}"'
        request = self._request(method, path, {}, body, headers)
        return _content(*self._asked(request, HTTPResponse.read))

    def lines(self, path: str, **query: Any) -> Iterator[str]:
        """As they come, until the server has sent the last. Raises ServerUnreachable if it is gone before that."""
        url, response = self._asked(self._request("GET", path, query), lambda response: response, has_end=False)
        try:
            for line in _lines(response):
                yield line.decode(errors="replace").rstrip("\r\n")
        except (OSError, HTTPException) as error:
            raise ServerUnreachable(f"The connection to {url} was lost ({reason(error)}): ask again.") from error

    def _request(
        self, method: str, path: str, query: Mapping[str, Any], body: Any = None, more: Mapping[str, str] | None = None
    ) -> HttpRequest:
        given = {name: value for name, value in query.items() if value is not None}
        target = (
            f"{_PREFIX}{path}?{urlencode(given, doseq=True, errors='surrogateescape')}" if given else f"{_PREFIX}{path}"
        )
        headers = {
            "Authorization": f"Bearer {self._where.key}",
            "Connection": "close",
            "User-Agent": f"interlock/{__version__}",
            **(more or {}),
        }
        if body is None:
            return HttpRequest(method, target, None, headers)
        return HttpRequest(method, target, json.dumps(body).encode(), {**headers, "Content-Type": "application/json"})

    def _asked(self, request: HttpRequest, read: Callable[[HTTPResponse], T], *, has_end: bool = True) -> tuple[str, T]:
        """Who answered, and what `read` makes of it."""
        give_up_at = time.monotonic() + _PATIENCE
        for attempt in count():
            url, response, got = self._sent(request, read, has_end)
            if not isinstance(got, _Refused):
                return url, got
            error = refusal(response.status, got.body, url)
            later = response.getheader("Retry-After")
            if response.status not in _LATER or later is None or time.monotonic() > give_up_at:
                raise error
            if self._is_over():
                raise ServerUnreachable(str(error)) from error
            if attempt == 0:
                self.tell(f"{error} Waiting for it.")
            self._pause(min(float(later), 5.0) if later.isdecimal() else 1.0)
        raise AssertionError("counting has no end")

    def _sent(
        self, request: HttpRequest, read: Callable[[HTTPResponse], T], has_end: bool
    ) -> tuple[str, HTTPResponse, T | _Refused]:
        """By the first server that answers at all."""
        failure = ServerUnreachable(
            "No control plane runs on the data directory at the moment: start `interlock up`, or name one that runs "
            "elsewhere with INTERLOCK_SERVER."
        )
        for url in self._attempts():
            timeout = max(_LEAST, min(TIMEOUT, self._until - time.monotonic()))
            try:
                response = answered(url, request, timeout, timeout if has_end else None)
                is_taken = 200 <= response.status < 300
                return url, response, read(response) if is_taken else _Refused(response.read())
            except (OSError, HTTPException) as error:
                failure = ServerUnreachable(
                    f"No control plane answers at {url} ({reason(error)}): is `interlock up` running there?"
                )
                failure.__cause__ = error
                if self._is_over():
                    break
        raise failure

    def _is_over(self) -> bool:
        return time.monotonic() > self._until

    def _attempts(self) -> Iterator[str]:
        """Looked up anew for the second: a server that came back may listen elsewhere."""
        yield from self._where.addresses()
        yield from self._where.addresses()


def _lines(response: HTTPResponse) -> Iterator[bytes]:
    """Iterating over a response would take a connection that was lost for the end of what was sent."""
    rest = b""
    while part := response.read1(_PART):
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
        raise refusal(200, body, url) from None
