"""A proxy between a client and a DynamoDB engine that injects a chosen fault into each request.

``throttle``, ``conflict`` and ``deny``: refused with an error of DynamoDB's own, not passed on. ``fail``: answered with
500, not passed on. ``fail late``: carried out, then answered with 500. ``lose``: carried out, and the connection ends
instead of an answer. ``hang``: carried out, and not answered until the client's timeout. ``hold``: kept here, and
passed on when `let_go` is called, long after the client's timeout.
"""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

Fault = Literal["throttle", "fail", "fail late", "lose", "hang", "hold", "conflict", "deny"]

_ERRORS: dict[str, tuple[int, str]] = {
    "throttle": (400, "ProvisionedThroughputExceededException"),
    "conflict": (400, "TransactionConflictException"),
    "deny": (400, "AccessDeniedException"),
    "fail": (500, "InternalServerError"),
    "fail late": (500, "InternalServerError"),
}


@dataclass
class Faults:
    """`seen` has all requests with their fault; `choose` decides about requests without a planned fault."""

    endpoint: str = ""
    seen: list[tuple[str, dict[str, Any], Fault | None]] = field(default_factory=list)
    choose: Callable[[str, dict[str, Any]], Fault | None] = lambda operation, body: None
    _planned: list[tuple[str, Fault]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _released: threading.Event = field(default_factory=threading.Event)
    _held: list[threading.Thread] = field(default_factory=list)

    def plan(self, operation: str, *faults: Fault) -> None:
        """Plan faults for the next requests of that kind, one after the other."""
        with self._lock:
            self._planned += [(operation, fault) for fault in faults]

    def of(self, operation: str) -> list[Fault | None]:
        """The results of the requests of that kind."""
        return [fault for name, _, fault in self.seen if name == operation]

    def let_go(self) -> None:
        """Wait until the held requests have been carried out."""
        self._released.set()
        for thread in self._held:
            thread.join()

    def take(self, operation: str, body: dict[str, Any]) -> Fault | None:
        with self._lock:
            planned = next((plan for plan in self._planned if plan[0] == operation), None)
            if planned is not None:
                self._planned.remove(planned)
            fault = self.choose(operation, body) if planned is None else planned[1]
            self.seen.append((operation, body, fault))
            return fault

    def keep(self, work: Callable[[], object]) -> None:
        def later() -> None:
            self._released.wait()
            work()

        thread = threading.Thread(target=later, daemon=True)
        self._held.append(thread)
        thread.start()

    def end(self) -> None:
        self._released.set()


@contextmanager
def faulty(endpoint: str) -> Iterator[Faults]:
    """A proxy whose `endpoint` leads to the engine."""
    faults = Faults()
    target = urlsplit(endpoint)

    class Handler(_Handler):
        pass

    Handler.faults = faults
    Handler.address = (target.hostname or "", target.port or 80)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    faults.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    serving.start()
    try:
        yield faults
    finally:
        faults.end()
        server.shutdown()
        serving.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    faults: Faults
    address: tuple[str, int]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        operation = self.headers["X-Amz-Target"].rpartition(".")[2]
        fault = self.faults.take(operation, json.loads(body))
        if fault in ("throttle", "fail", "conflict", "deny"):
            self._refuse(fault)
        elif fault == "hold":
            self.faults.keep(lambda: self._obeyed(body))
            self.faults._released.wait()
            self.close_connection = True
        else:
            self._answer(fault, *self._obeyed(body))

    def _answer(self, fault: Fault | None, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        if fault == "fail late":
            self._refuse(fault)
        elif fault == "hang":
            self.faults._released.wait()
            self.close_connection = True
        elif fault == "lose":
            self.close_connection = True
        else:
            self._send(
                status, content, [pair for pair in headers if pair[0].lower().startswith(("content-type", "x-"))]
            )

    def _obeyed(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(*self.address)
        try:
            passed_on = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            connection.request("POST", "/", body, passed_on)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _refuse(self, fault: Fault) -> None:
        status, code = _ERRORS[fault]
        body = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "so it was planned"}
        self._send(status, json.dumps(body).encode(), [("Content-Type", "application/x-amz-json-1.0")])

    def _send(self, status: int, content: bytes, headers: list[tuple[str, str]]) -> None:
        try:
            self.send_response_only(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:  # the client has disconnected
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        pass
