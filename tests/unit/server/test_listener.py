"""The listening socket, and the errors when it cannot be opened."""

import errno
import socket

import pytest

from interlock.errors import AddressInUse, ConfigurationError
from interlock.server.listener import listen, page_url


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
