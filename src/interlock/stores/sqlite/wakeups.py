"""How processes tell each other that it is somebody's turn: a socket for each that listens, in a directory of its own.

A datagram socket is also the sign that its process lives: the kernel closes it with the process, however that ends, and
whoever then connects to what is left of it is refused. That holds for numbers that are used again, and for processes
that cannot see each other's numbers.
"""

import asyncio
import errno
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID

from interlock.stores.sqlite.forks import left_alone_in_children

_LONGEST_ADDRESS = 100
_MOST_IDS = 1000
_LARGEST = 16 * _MOST_IDS
_FULL = (errno.EAGAIN, errno.ENOBUFS)
_PATIENCE, _STEP = 0.1, 0.002


class Ear:
    """Open from the moment it is made. `name` is what others ring."""

    def __init__(self, directory: Path, on_turn: Callable[[UUID | None], None]) -> None:
        self.name = secrets.token_hex(6)
        self._path = directory / self.name
        self._on_turn = on_turn
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        left_alone_in_children(self)
        try:
            with _address(self._path) as address:
                self._socket.bind(address)
            self._path.chmod(directory.stat().st_mode & 0o666)
        except BaseException:
            self._socket.close()
            raise
        # By its number: uvloop would keep a socket open for as long as it reads it, in a forked child too.
        self._loop.add_reader(self._socket.fileno(), self._hear)

    def _hear(self) -> None:
        while True:
            try:
                message = self._socket.recv(_LARGEST)
            except BlockingIOError:
                return
            if not message:
                self._on_turn(None)
            for start in range(0, len(message), 16):
                self._on_turn(UUID(bytes=message[start : start + 16]))

    def close(self) -> None:
        if not self._loop.is_closed():
            self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def let_go(self) -> None:
        self._socket.close()


class WakeUps:
    """To ring at others, in the thread that writes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def is_alive(self, name: str) -> bool:
        try:
            with _to(self._directory / name):
                return True
        except (ConnectionRefusedError, FileNotFoundError):
            return False

    def ring(self, name: str, ids: Iterable[UUID]) -> bool:
        """Without ids: everybody there was given up. False: there is no room for it there now."""
        message = b"".join(each.bytes for each in ids)
        try:
            with _to(self._directory / name) as bell:
                for start in range(0, len(message) or 1, _LARGEST):
                    bell.send(message[start : start + _LARGEST])
        except OSError as error:  # it is full; or nobody is there any more, and then nobody has to be told
            return error.errno not in _FULL
        return True

    def ring_again(self, rings: dict[str, list[UUID]]) -> None:
        """Those that had no room. One that stands still for longer is passed over in a second, and told of that."""
        ends_at = time.monotonic() + _PATIENCE
        while rings and time.monotonic() < ends_at:
            time.sleep(_STEP)
            rings = {name: ids for name, ids in rings.items() if not self.ring(name, ids)}

    def clear(self) -> None:
        """Remove what dead processes have left."""
        for path in self._directory.iterdir():
            if path.is_socket() and not self.is_alive(path.name):
                path.unlink(missing_ok=True)


@contextmanager
def _to(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as bell:
        with _address(path) as address:
            bell.connect(address)
        yield bell


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """Addresses are short; a longer path is taken by way of its directory's descriptor, where the system has that."""
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        with suppress(OSError):
            os.close(descriptor)
