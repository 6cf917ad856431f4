"""The listening socket, and the errors when it cannot be opened."""

import errno
import os
import re
import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from interlock.errors import AddressInUse, ConfigurationError
from interlock.server.listener import listen, page_url
from interlock.server.replica_file import announced


def test_port_0_takes_a_free_port() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert port > 0
        assert page_url(listener) == f"http://127.0.0.1:{port}"


def test_a_connection_before_the_server_accepts_is_not_refused() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        pass


def test_the_error_for_a_used_port_names_the_port_and_the_remedy() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(AddressInUse, match=rf"Port {port} on 127\.0\.0\.1 is used by another program.* --port"):
            listen("127.0.0.1", port)


def test_a_port_of_the_same_data_directory_is_explained_with_its_process(tmp_path: Path) -> None:
    with listen("127.0.0.1", 0) as first, announced(tmp_path, page_url(first)):
        port, pid = first.getsockname()[1], os.getpid()
        with pytest.raises(
            AddressInUse, match=rf"the `interlock up` that runs on {tmp_path} .*process {pid}.* `kill {pid}`.* --port"
        ):
            listen("127.0.0.1", port, tmp_path)


@pytest.mark.parametrize(
    ("body", "occupant"),
    [
        (b'{"phase": "ready", "since": "2026-01-01T00:00:00Z"}', "another `interlock up`, whose page is http://"),
        (b'{"hello": "world"}', "another program"),
        (b"[]", "another program"),
    ],
)
def test_a_port_of_another_server_is_explained(tmp_path: Path, body: bytes, occupant: str) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(AddressInUse, match=re.escape(occupant)):
            listen("127.0.0.1", server.server_port, tmp_path)
        thread.join()


def test_the_error_for_a_privileged_port_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> socket.socket:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(ConfigurationError, match=r"privileged user .* port 80: .* --port"):
        listen("127.0.0.1", 80)


def test_the_error_for_an_address_of_another_machine_names_it() -> None:
    with pytest.raises(ConfigurationError, match=r"192\.0\.2\.1 is not an address of this machine"):
        listen("192.0.2.1", 0)


@pytest.mark.parametrize("host", ["no such host", "", "a..b"])
def test_the_error_for_an_unknown_host_name_explains_it(host: str) -> None:
    with pytest.raises(ConfigurationError, match="neither an IP address nor a host name"):
        listen(host, 0)


def test_the_url_of_a_server_on_all_addresses_is_local() -> None:
    with listen("0.0.0.0", 0) as listener:  # noqa: S104
        assert page_url(listener).startswith("http://127.0.0.1:")


def test_an_answer_does_not_wait_for_the_acknowledgement_of_the_previous_one() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
