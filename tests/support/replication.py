"""A primary and its streaming standby, both of our own binaries.

The standby receives over a `Cable`. To fail over with a loss that is certain, the cable is cut: a commit after that is
never sent on, whatever the primary is able to say before its end. Pausing the replay would not do, because the standby
replays all that it has received before it is promoted; nor would stopping its receiver, because what waits in the
socket may be read when it has to go on in order to end.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from interlock.embedded import Account, Binaries, Cluster, account_for, find_binaries, within_reach
from interlock.embedded.files import make_private, write_whole
from interlock.embedded.layout import Layout
from interlock.embedded.processes import run
from support.postgres import QUICK, execute, open_directory
from support.proxy import Cable, cable_to
from support.waiting import eventually

# What a server answers to a commit has to be in its WAL: else losing it would prove nothing.
_SETTINGS = QUICK | {"synchronous_commit": "on", "shared_buffers": "16MB"}
_FOLLOWING = "SELECT state = 'streaming' AND sync_state = %s FROM pg_stat_replication"


@dataclass(frozen=True)
class Pair:
    """`primary` is the one that began as such, also when it is gone and the standby was promoted."""

    primary: Cluster
    standby: Cluster
    link: Cable
    primary_url: str
    standby_url: str

    @property
    def url(self) -> str:
        """Both servers; the client is to find the one that it can write to."""
        parts = urlsplit(self.primary_url)
        both = f"{parts.netloc},{urlsplit(self.standby_url).netloc.rpartition('@')[2]}"
        return urlunsplit(parts._replace(netloc=both, query="target_session_attrs=read-write"))

    def freeze(self) -> None:
        """From here on the standby gets nothing: a commit is lost with the primary or, if synchronous, does not end."""
        self.link.cut()

    def wait_caught_up(self) -> None:
        """Return when the standby shows all that the primary has committed until now, on disk there or not."""
        (position,) = execute(self.primary_url, "SELECT pg_current_wal_insert_lsn()::text")[0]
        eventually(lambda: execute(self.standby_url, "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", position)[0][0])

    def stop_primary(self, mode: Literal["fast", "immediate"] = "immediate") -> None:
        """In mode `fast` it first gives its standby all that it has, and would wait for a frozen one."""
        self.primary.stop(mode)

    def promote(self) -> None:
        """Return when the standby can be written to."""
        assert execute(self.standby_url, "SELECT pg_promote(wait => true)") == [(True,)]


@contextmanager
def primary_and_standby(*, synchronous: bool) -> Iterator[Pair]:
    """Both run, and the standby follows. If synchronous, a commit is acknowledged when the standby has it on disk."""
    with open_directory("interlock-pair-") as directory:
        account = account_for()
        pg_bin = os.environ.get("INTERLOCK_PG_BIN")
        binaries = within_reach(find_binaries(Path(pg_bin) if pg_bin else None), account, directory)
        with _running(directory / "primary", binaries) as primary:
            execute(primary.url(), "CREATE DATABASE interlock")
            primary_url = primary.url("interlock", tcp=True)
            with cable_to(primary.url(tcp=True)) as (link, through):
                _copy(through, binaries, account, directory)
                with _running(directory / "standby", binaries) as standby:
                    _follow(primary_url, synchronous=synchronous)
                    yield Pair(primary, standby, link, primary_url, standby.url("interlock", tcp=True))


@contextmanager
def _running(root: Path, binaries: Binaries) -> Iterator[Cluster]:
    cluster = Cluster(root, port="free", tls=False, settings=_SETTINGS, binaries=binaries)
    try:
        cluster.create()
        cluster.start()
        yield cluster
    finally:
        cluster.stop("immediate")


def _copy(url: str, binaries: Binaries, account: Account, directory: Path) -> None:
    """The standby's directory, as a cluster of ours that follows the server of `url`."""
    layout, original = Layout(directory / "standby"), Layout(directory / "primary")
    layout.prepare(account)
    write_whole(layout.password, original.password.read_bytes(), account)
    make_private(layout.data, account)
    program = binaries.tool("pg_basebackup")
    options = ("--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync")
    status, _, complaint = run([program, f"--pgdata={layout.data}", f"--dbname={url}", *options], account)
    assert status == 0, complaint


def _follow(primary_url: str, *, synchronous: bool) -> None:
    if synchronous:
        execute(primary_url, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        execute(primary_url, "SELECT pg_reload_conf()")
    eventually(lambda: execute(primary_url, _FOLLOWING, "sync" if synchronous else "async") == [(True,)])
