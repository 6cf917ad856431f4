"""Redis, with or without durable writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.equipment import SERVERS, which
from benchmarks.servers.process import free_port, running


@contextmanager
def redis(directory: Path, *, durable: bool) -> Iterator[str]:
    """Yields its URL. `durable`: the append-only file is synced at each write; otherwise there is no file."""
    port = free_port()
    options = {
        "--bind": "127.0.0.1",
        "--port": str(port),
        "--dir": str(directory),
        "--save": "",
        "--appendonly": "yes" if durable else "no",
        "--appendfsync": "always" if durable else "no",
    }
    command = [which(SERVERS["redis"].program) or "redis-server", *(word for pair in options.items() for word in pair)]
    with running(command, directory, port):
        yield f"redis://127.0.0.1:{port}/0"
