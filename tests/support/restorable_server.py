"""A server that keeps a backup and its WAL, and can be restored to an earlier moment at the same address.

The restore is that of an operator: the data are replaced by the backup, the archived WAL is replayed up to the moment,
and the server continues on a new timeline.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from interlock.embedded import Cluster, account_for
from interlock.embedded.files import append, make_private, write_whole
from interlock.embedded.paths import ClusterPaths
from support.postgres import execute, open_directory
from support.replication import LOGGING, back_up, binaries_for, running_server
from support.waiting import eventually


@dataclass(frozen=True)
class Restorable:
    cluster: Cluster
    url: str
    _archive: Path
    _backup: Path

    def back_up(self) -> None:
        """Make the backup, which serves for one `restore`."""
        back_up(self.cluster.url(tcp=True), self._backup, binaries_for(self.cluster.root))

    def now(self) -> str:
        """A moment to restore: earlier commits exist after the restore, and later ones do not."""
        return str(execute(self.url, "SELECT clock_timestamp()::text")[0][0])

    def restore(self, moment: str) -> None:
        """Restore the server. Returns when it accepts writes again."""
        self._archive_all()
        self.cluster.stop("immediate")
        data = ClusterPaths(self.cluster.root).data
        shutil.rmtree(data)
        self._backup.rename(data)
        target = f"recovery_target_time = '{moment}'\nrecovery_target_action = 'promote'\n"
        append(data / "postgresql.auto.conf", f"restore_command = 'cp {self._archive}/%f %p'\n{target}")
        write_whole(data / "recovery.signal", b"", account_for())
        self.cluster.start()
        eventually(lambda: execute(self.url, "SELECT pg_is_in_recovery()") == [(False,)])

    def _archive_all(self) -> None:
        """Archive all WAL, also of commits after the moment: only the recovery target must exclude them."""
        [[last]] = execute(self.url, "SELECT pg_walfile_name(pg_switch_wal())")
        eventually(lambda: execute(self.url, "SELECT last_archived_wal >= %s FROM pg_stat_archiver", last) == [(True,)])


@contextmanager
def restorable_server() -> Iterator[Restorable]:
    """A running server with an empty database."""
    with open_directory("interlock-restorable-") as directory:
        archive = directory / "archive"
        make_private(archive, account_for())
        settings = LOGGING | {"archive_mode": "on", "archive_command": f"cp %p {archive}/%f"}
        with running_server(directory / "server", binaries_for(directory), settings) as cluster:
            execute(cluster.url(), "CREATE DATABASE interlock")
            yield Restorable(cluster, cluster.url("interlock", tcp=True), archive, directory / "backup")
