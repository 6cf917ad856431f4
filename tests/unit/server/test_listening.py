"""The listening socket, and what is said when it cannot be had."""

import errno
import socket

import pytest

from interlock.errors import AddressInUse, ConfigurationError
from interlock.server.listener import listen, page_url


def test_a_free_port_is_taken_when_none_is_named() -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert port > 0
        assert page_url(listener) == f"http://127.0.0.1:{port}"


def test_whoever_connects_before_the_server_answers_is_not_refused() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        pass


def test_a_taken_port_is_named_together_with_the_way_out() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(AddressInUse, match=rf"Port {port} on 127\.0\.0\.1 is taken .* --port"):
            listen("127.0.0.1", port)


def test_a_privileged_port_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> socket.socket:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(ConfigurationError, match=r"privileged user .* port 80: .* --port"):
        listen("127.0.0.1", 80)


def test_an_address_of_another_machine_is_explained() -> None:
    with pytest.raises(ConfigurationError, match=r"192\.0\.2\.1 is not an address of this machine"):
        listen("192.0.2.1", 0)


@pytest.mark.parametrize("host", ["no such host", "", "a..b"])
def test_a_name_that_is_none_is_explained(host: str) -> None:
    with pytest.raises(ConfigurationError, match="neither an address nor a name"):
        listen(host, 0)


def test_the_page_of_a_server_on_every_address_is_found_on_this_machine() -> None:
    with listen("0.0.0.0", 0) as listener:  # noqa: S104
        assert page_url(listener).startswith("http://127.0.0.1:")


def test_answers_do_not_wait_for_the_one_before_to_be_acknowledged() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
