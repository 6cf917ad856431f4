"""A server that loses in a crash what can be lost."""

from collections.abc import Iterator
from contextlib import contextmanager

from interlock.embedded import Cluster
from interlock.schema import whole_schema
from support.postgres import QUICK, execute, running_cluster

# What a commit did not wait for would be lost in each crash, and the server itself asks no commit to wait.
_CARELESS = QUICK | {"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "2GB"}


@contextmanager
def careless_server() -> Iterator[Cluster]:
    """With Interlock's schema in it."""
    with running_cluster(_CARELESS) as cluster:
        execute(cluster.url(), whole_schema("interlock"))
        execute(cluster.url(), "CHECKPOINT")
        yield cluster


def crash(server: Cluster) -> None:
    server.stop("immediate")
    server.start()
