"""Notifications between processes: each process with waiters has a datagram socket in the directory beside the file.

The socket also shows that its process lives: the kernel closes the socket when the process ends, for any reason, and
refuses later connections to its path. Process ids cannot show that: they are used again, and other containers do not
see them.
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

from interlock.stores.sqlite.forks import detach_in_children

_LONGEST_ADDRESS = 100
_MOST_IDS = 1000
_LARGEST = 16 * _MOST_IDS
_FULL = (errno.EAGAIN, errno.ENOBUFS)
_RETRY_FOR, _RETRY_EVERY = 0.1, 0.002


class WakeUpSocket:
    """Receives this process's notifications, from the creation of this object. Other processes send them to `name`."""

    def __init__(self, directory: Path, on_turn: Callable[[UUID | None], None]) -> None:
        self.name = secrets.token_hex(6)
        self._path = directory / self.name
        self._on_turn = on_turn
        self._loop = asyncio.get_running_loop()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        detach_in_children(self)
        try:
            with _address(self._path) as address:
                self._socket.bind(address)
            self._path.chmod(directory.stat().st_mode & 0o666)
        except BaseException:
            self._socket.close()
            raise
        # By its descriptor: uvloop would keep a socket object open while it reads it, in a forked child too.
        self._loop.add_reader(self._socket.fileno(), self._receive)

    def _receive(self) -> None:
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

    def detach(self) -> None:
        self._socket.close()


class WakeUpSender:
    """Notifies other processes. Only the writing thread uses it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def is_alive(self, name: str) -> bool:
        try:
            with _connected(self._directory / name):
                return True
        except (ConnectionRefusedError, FileNotFoundError):
            return False

    def wake(self, name: str, ids: Iterable[UUID]) -> bool:
        """Send the ids of notified waiters to a listener. No ids mean: all waiters of this listener were removed.

        Returns False if the socket's buffer is full.
        """
        message = b"".join(each.bytes for each in ids)
        try:
            with _connected(self._directory / name) as target:
                for start in range(0, len(message) or 1, _LARGEST):
                    target.send(message[start : start + _LARGEST])
        except OSError as error:  # full; or its process has ended, and needs no notification
            return error.errno not in _FULL
        return True

    def wake_later(self, pending: dict[str, list[UUID]]) -> None:
        """Send again where the buffer was full. A process that stays stopped loses its turn within a second."""
        ends_at = time.monotonic() + _RETRY_FOR
        while pending and time.monotonic() < ends_at:
            time.sleep(_RETRY_EVERY)
            pending = {name: ids for name, ids in pending.items() if not self.wake(name, ids)}

    def clear(self) -> None:
        """Remove the sockets of dead processes."""
        for path in self._directory.iterdir():
            if path.is_socket() and not self.is_alive(path.name):
                path.unlink(missing_ok=True)


@contextmanager
def _connected(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as target:
        with _address(path) as address:
            target.connect(address)
        yield target


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """Yields an address of the socket. Where the path is too long, the address uses a descriptor of its directory."""
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield str(path)
        return
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        with suppress(OSError):
            os.close(descriptor)
