"""A TCP proxy that can be cut like a cable: after `cut()` nothing passes and nobody is told."""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit


class Cable:
    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        self._cut = threading.Event()
        self._closing = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def cut(self) -> None:
        self._cut.set()

    def close(self) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join()
        for end in [*self._ends, self._listener]:
            end.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            if select.select([self._listener], [], [], 0.05)[0]:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._target)
                self._ends += [near, far]
                thread = threading.Thread(target=self._relay, args=(near, far), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _relay(self, near: socket.socket, far: socket.socket) -> None:
        while not self._closing.is_set() and not self._cut.is_set():
            for end in select.select([near, far], [], [], 0.05)[0]:
                data = end.recv(65536)
                other = far if end is near else near
                if not data:
                    other.shutdown(socket.SHUT_RDWR)
                    return
                if not self._cut.is_set():
                    other.sendall(data)


@contextmanager
def cable_to(url: str) -> Iterator[tuple[Cable, str]]:
    """A cable to the server of `url`, and the same URL through it."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    cable = Cable((parts.hostname, parts.port))
    through = parts._replace(netloc=parts.netloc.replace(f":{parts.port}", f":{cable.port}"))
    try:
        yield cable, urlunsplit(through)
    finally:
        cable.close()
