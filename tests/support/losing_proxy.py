"""A proxy before the control plane that passes on the first change and loses its answer."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


class LosingProxy:
    """`passed_on` has the requests: method, path, and the status of the server's answer."""

    def __init__(self, target: str) -> None:
        self.target = urlsplit(target).netloc
        self.url = ""
        self.passed_on: list[tuple[str, str, int]] = []


@contextmanager
def losing_proxy(target: str) -> Iterator[LosingProxy]:
    proxy = LosingProxy(target)
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy)) as listener:
        proxy.url = f"http://127.0.0.1:{listener.server_port}"
        thread = threading.Thread(target=listener.serve_forever, args=[0.01])
        thread.start()
        try:
            yield proxy
        finally:
            listener.shutdown()
            thread.join()


def _handler(proxy: LosingProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            behind = HTTPConnection(proxy.target, timeout=60)
            behind.request(self.command, self.path, body, dict(self.headers))
            answer = behind.getresponse()
            content = answer.read()
            is_first_change = self.command != "GET" and all(method == "GET" for method, _, _ in proxy.passed_on)
            proxy.passed_on.append((self.command, self.path, answer.status))
            self.close_connection = True
            if not is_first_change:
                self.send_response(answer.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = _pass_on  # noqa: N815

        def log_message(self, *args: Any) -> None:
            pass

    return Handler
