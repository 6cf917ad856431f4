"""A server that loses all unsynced data in a crash."""

from collections.abc import Iterator
from contextlib import contextmanager

from interlock.embedded import Cluster
from interlock.schema import whole_schema
from support.postgres import QUICK, execute, running_cluster

# A crash loses every commit that did not wait for the disk, and by default no commit of this server waits.
_CARELESS = QUICK | {"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "2GB"}


@contextmanager
def careless_server() -> Iterator[Cluster]:
    """A server with Interlock's schema in its database."""
    with running_cluster(_CARELESS) as cluster:
        execute(cluster.url(), whole_schema("interlock"))
        execute(cluster.url(), "CHECKPOINT")
        yield cluster


def crash(server: Cluster) -> None:
    server.stop("immediate")
    server.start()
