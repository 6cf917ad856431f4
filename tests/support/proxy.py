"""A TCP proxy that can be cut like a cable, can lose the replies, and can be slow.

After `cut()` nothing passes and no end is notified: data that is sent meanwhile arrives after `restore()`. After
`swallow_replies()` requests still arrive and are carried out, but their senders get no reply; a connection that lost a
reply is unusable, and `restore()` ends it. `delay` delays all data, in seconds per direction.
"""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

State = Literal["whole", "cut", "swallowing"]
_LOOK_EVERY = 0.02


class Cable:
    def __init__(self, target: tuple[str, int]) -> None:
        self.delay = 0.0
        self.swallowed = 0
        """The number of lost reply bytes."""
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._state: State = "whole"
        self._closing = threading.Event()
        self._connections: list[_Connection] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def state(self) -> State:
        return self._state

    @property
    def is_loaded(self) -> bool:
        """True if data for the target is held back here."""
        return any(connection.is_loaded for connection in list(self._connections))

    def lead_to(self, port: int) -> None:
        """From now on connections lead to that target, or are refused if it does not listen."""
        self._target = (self._target[0], port)

    def cut(self) -> None:
        self._state = "cut"

    def swallow_replies(self) -> None:
        self._state = "swallowing"

    def restore(self) -> None:
        self._state = "whole"

    def close(self) -> None:
        self._closing.set()
        self._accepting.join()
        self._listener.close()
        for connection in self._connections:
            connection.join()

    def pause(self, seconds: float) -> bool:
        """Wait for that time. True if the connection still exists then."""
        return not self._closing.wait(seconds)

    def _accept(self) -> None:
        while not self._closing.is_set():
            if select.select([self._listener], [], [], _LOOK_EVERY)[0]:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(self._target)
                except OSError:
                    near.close()
                    continue
                self._connections.append(_Connection(self, near, far))


class _Connection:
    def __init__(self, cable: Cable, near: socket.socket, far: socket.socket) -> None:
        self._cable, self._near, self._far = cable, near, far
        self._is_spoilt = self._is_in_hand = False
        self._thread = threading.Thread(target=self._relay, daemon=True)
        self._thread.start()

    @property
    def is_loaded(self) -> bool:
        return self._is_in_hand or (self._near.fileno() >= 0 and bool(select.select([self._near], [], [], 0)[0]))

    def join(self) -> None:
        self._thread.join()

    def _relay(self) -> None:
        with self._near, self._far, suppress(OSError):  # a reset end counts as closed
            while self._wait_while("cut") and not (self._is_spoilt and self._cable.state == "whole"):
                for end in select.select([self._near, self._far], [], [], _LOOK_EVERY)[0]:
                    if not self._pass_on(end):
                        return

    def _pass_on(self, end: socket.socket) -> bool:
        """Pass on the data that `end` has sent. True if more can follow."""
        data = end.recv(65536)
        self._is_in_hand = end is self._near and bool(data)
        if not self._cable.pause(self._cable.delay) or not self._wait_while("cut"):
            return False
        self._is_in_hand = False
        if end is self._near:
            self._far.sendall(data)
        elif self._cable.state == "swallowing":
            self._swallow(data)
        elif not self._is_spoilt:
            self._near.sendall(data)
        return bool(data)

    def _swallow(self, data: bytes) -> None:
        self._is_spoilt = True
        self._cable.swallowed += len(data)
        if not data:  # the far end has closed, which is lost too
            self._wait_while("swallowing")

    def _wait_while(self, state: State) -> bool:
        """Wait for another state of the cable. True if the connection still exists then."""
        while self._cable.state == state:
            if not self._cable.pause(_LOOK_EVERY):
                return False
        return self._cable.pause(0)


@contextmanager
def cable_to(url: str) -> Iterator[tuple[Cable, str]]:
    """A cable to the server of `url`, and the URL that leads through it."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    cable = Cable((parts.hostname, parts.port))
    through = parts._replace(netloc=parts.netloc.replace(f":{parts.port}", f":{cable.port}"))
    try:
        yield cable, urlunsplit(through)
    finally:
        cable.close()
