"""The proxy itself behaves as tests rely on it."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from support.proxy import Cable
from support.waiting import eventually


@dataclass
class Server:
    """Records every word and answers it in capitals."""

    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    heard: list[bytes] = field(default_factory=list)
    sessions: list[socket.socket] = field(default_factory=list)

    def serve(self) -> None:
        while True:
            try:
                session, _ = self.listener.accept()
            except OSError:
                return
            self.sessions.append(session)
            threading.Thread(target=self._answer, args=[session], daemon=True).start()

    def _answer(self, session: socket.socket) -> None:
        try:
            while word := session.recv(1000):
                self.heard.append(word)
                session.sendall(word.upper())
        except OSError:
            pass
        self.heard.append(b"<end>")


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.listener.shutdown(socket.SHUT_RDWR)
        server.listener.close()
        thread.join()
        for session in server.sessions:
            session.close()


@pytest.fixture
def cable(server: Server) -> Iterator[Cable]:
    cable = Cable(server.listener.getsockname()[:2])
    yield cable
    cable.close()


def client(cable: Cable) -> socket.socket:
    return socket.create_connection(("127.0.0.1", cable.port), timeout=10)


def says_nothing(peer: socket.socket) -> bool:
    peer.settimeout(0.2)
    try:
        peer.recv(1000)
    except TimeoutError:
        return True
    finally:
        peer.settimeout(10)
    return False


def test_a_whole_cable_carries_both_ways_and_passes_on_the_end_of_either_side(server: Server, cable: Cable) -> None:
    with client(cable) as peer:
        peer.sendall(b"word")
        assert peer.recv(1000) == b"WORD"
    eventually(lambda: server.heard == [b"word", b"<end>"])
    with client(cable) as peer:
        peer.sendall(b"word")
        assert peer.recv(1000) == b"WORD"
        server.sessions[-1].shutdown(socket.SHUT_RDWR)
        assert peer.recv(1000) == b""


def test_data_sent_into_a_cut_cable_arrives_after_the_repair(server: Server, cable: Cable) -> None:
    with client(cable) as peer:
        peer.sendall(b"one")
        assert peer.recv(1000) == b"ONE"
        cable.cut()
        peer.sendall(b"two")
        assert says_nothing(peer)
        assert server.heard == [b"one"]
        cable.restore()
        assert peer.recv(1000) == b"TWO"


def test_a_cut_cable_does_not_pass_on_the_end_of_either_side(server: Server, cable: Cable) -> None:
    with client(cable) as peer:
        peer.sendall(b"one")
        assert peer.recv(1000) == b"ONE"
        cable.cut()
        server.sessions[0].shutdown(socket.SHUT_RDWR)
        assert says_nothing(peer)


def test_a_request_with_a_lost_reply_was_carried_out_and_its_connection_is_unusable(
    server: Server, cable: Cable
) -> None:
    with client(cable) as peer:
        peer.sendall(b"one")
        assert peer.recv(1000) == b"ONE"
        cable.swallow_replies()
        peer.sendall(b"two")
        eventually(lambda: cable.swallowed)
        assert server.heard == [b"one", b"two"]
        assert says_nothing(peer)
        cable.restore()
        assert peer.recv(1000) == b""
    with client(cable) as peer:
        peer.sendall(b"three")
        assert peer.recv(1000) == b"THREE"


def test_a_connection_that_lost_no_reply_stays_usable(server: Server, cable: Cable) -> None:
    with client(cable) as idle, client(cable) as busy:
        idle.sendall(b"one")
        assert idle.recv(1000) == b"ONE"
        cable.swallow_replies()
        busy.sendall(b"two")
        eventually(lambda: cable.swallowed)
        cable.restore()
        idle.sendall(b"three")
        assert idle.recv(1000) == b"THREE"


def test_a_slow_cable_carries_everything(server: Server, cable: Cable) -> None:
    cable.delay = 0.05
    with client(cable) as peer:
        peer.sendall(b"one")
        assert peer.recv(1000) == b"ONE"


def test_without_a_server_the_connection_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        target = closed.getsockname()[:2]
    cable = Cable(target)
    try:
        with client(cable) as peer:
            assert peer.recv(1000) == b""
    finally:
        cable.close()
