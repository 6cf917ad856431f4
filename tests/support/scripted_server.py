"""A scripted control plane on real sockets: it gives the planned answers and records the requests."""

import fcntl
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from click.testing import Result

Command = Callable[..., Result]
"""`interlock instance …`, run to its end."""
KEY = "ilk_of-a-test"
PREFIX = "/api/v1"


@dataclass(frozen=True)
class Answer:
    """`body` is JSON data, or bytes as they are. `lost`: the connection ends after the request without an answer."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    lost: bool = False


LOST = Answer(lost=True)


@dataclass(frozen=True)
class Asked:
    line: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


class ScriptedServer:
    """The last planned answer to a request is repeated. A request without a planned answer gets a 404."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.url = ""
        self._answers: dict[str, list[Answer]] = {}

    def answers(self, line: str, *answers: Any) -> None:
        """Plan the answers to a request such as ``GET /instances``. A value that is no Answer is the body of one."""
        self._answers[line] = [one if isinstance(one, Answer) else Answer(one) for one in answers]

    def lines(self) -> list[str]:
        return [one.line for one in self.asked]

    def _answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        planned = self._answers.get(asked.line, [problem(404, "instance_unknown", "There is no such instance.")])
        return planned.pop(0) if len(planned) > 1 else planned[0]


def problem(status: int, code: str, detail: str, **more: Any) -> Answer:
    headers = {"Retry-After": "1"} if status == 503 else {}
    return Answer({"title": "Refused", "status": status, "detail": detail, "code": code, **more}, status, headers)


@contextmanager
def scripted_server(certificate: Path | None = None) -> Iterator[ScriptedServer]:
    """`certificate` is a PEM file with a key, for a server with TLS."""
    script = ScriptedServer()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(script)) as listener:
        listener.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            listener.socket = context.wrap_socket(listener.socket, server_side=True, do_handshake_on_connect=False)
        script.url = f"{'https' if certificate else 'http'}://127.0.0.1:{listener.server_port}"
        thread = threading.Thread(target=listener.serve_forever, args=[0.01])
        thread.start()
        try:
            yield script
        finally:
            listener.shutdown()
            thread.join()


@contextmanager
def listed(data_dir: Path, url: str, name: str = "one") -> Iterator[None]:
    """Announce the server in a data directory, as a running replica does."""
    (data_dir / "servers").mkdir(parents=True, exist_ok=True)
    private(data_dir / "api-key", KEY + "\n")
    file = private(data_dir / "servers" / f"{name}.json", json.dumps({"url": url, "pid": 1, "replica": name}))
    with file.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def private(path: Path, content: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(content)
    return path


def _handler(script: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            try:
                super().handle()
            except OSError:  # the client disconnected, as after a certificate that it does not trust
                self.close_connection = True

        def _take(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            line = f"{self.command} {parts.path.removeprefix(PREFIX)}"
            asked = Asked(line, parse_qs(parts.query), dict(self.headers), json.loads(body) if body else None)
            answer = script._answer(asked)
            self.close_connection = True
            if not answer.lost:
                self._give(answer)

        def _give(self, answer: Answer) -> None:
            content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = _take  # noqa: N815

        def log_message(self, *args: Any) -> None:
            pass

    return Handler
