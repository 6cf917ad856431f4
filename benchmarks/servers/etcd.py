"""etcd, one member, with its defaults: every commit is synced."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.equipment import SERVERS, which
from benchmarks.servers.process import free_port, running


@contextmanager
def etcd(directory: Path) -> Iterator[str]:
    """Yields its URL in the form for tooz."""
    port = free_port()
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{free_port()}"
    options = {
        "--name": "benchmark",
        "--data-dir": str(directory / "data"),
        "--listen-client-urls": client,
        "--advertise-client-urls": client,
        "--listen-peer-urls": peer,
        "--initial-advertise-peer-urls": peer,
        "--initial-cluster": f"benchmark={peer}",
        "--log-level": "error",
    }
    command = [which(SERVERS["etcd"].program) or "etcd", *(word for pair in options.items() for word in pair)]
    with running(command, directory, port):
        yield f"etcd3+http://127.0.0.1:{port}?api_version=v3"
