"""Ports on the loopback address."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def nobodys_port() -> Iterator[int]:
    """One on which connections are refused, and which nobody else is given meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]
