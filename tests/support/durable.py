"""A PostgreSQL that really syncs its log to a disk, and that only the test uses."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from interlock.embedded import Cluster
from support.postgres import execute, fresh_database, make_template
from support.waiting import eventually

_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    # Other processes that would sync the log too, and be counted.
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
    "max_wal_size": "4GB",
    "wal_writer_delay": "10s",
    "wal_writer_flush_after": "1GB",
}
_OTHERS = """
    SELECT count(*) FROM pg_stat_activity
     WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
_SYNCS = "SELECT wal_sync FROM pg_stat_wal"
_SYNCS_FROM_18 = "SELECT sum(fsyncs)::bigint FROM pg_stat_io WHERE object = 'wal'"


@contextmanager
def durable_database() -> Iterator[str]:
    """A database with Interlock's schema in it, on a server of its own."""
    # Kept over a restart by convention, and therefore on a disk; /tmp and /dev/shm may be memory.
    directory = Path(tempfile.mkdtemp(prefix="interlock-test-", dir="/var/tmp"))
    directory.chmod(0o755)
    try:
        with Cluster(directory / "pg", port="free", tls=False, settings=_SETTINGS).shared() as cluster:
            server_url = cluster.url(tcp=True)
            with fresh_database(server_url, make_template(server_url)) as url:
                yield url
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def settled_syncs(url: str) -> int:
    """The number of syncs of the log so far, counted when all other sessions have left the database.

    A session reports what it did when it ends, or seconds later.
    """
    eventually(lambda: execute(url, _OTHERS)[0][0] == 0)
    [[version]] = execute(url, "SELECT current_setting('server_version_num')::int")
    [[count]] = execute(url, _SYNCS_FROM_18 if version >= 180000 else _SYNCS)
    return int(count)
