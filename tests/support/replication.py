"""A primary and its streaming standby, both with Interlock's own binaries.

The standby receives over a `Cable`. For a failover with a certain loss the cable is cut: a later commit never reaches
the standby, whatever the primary sends before its end. Pausing the replay is not enough, because the standby replays
everything that it has received before it is promoted. Suspending its receiver is not enough either, because it has to
continue in order to end, and may then read data that waits in the socket.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from interlock.embedded import Binaries, Cluster, account_for, find_binaries, within_reach
from interlock.embedded.files import make_private, write_whole
from interlock.embedded.paths import ClusterPaths
from interlock.embedded.processes import run
from support.postgres import QUICK, execute, open_directory
from support.proxy import Cable, cable_to
from support.waiting import eventually

# An acknowledged commit has to be in the WAL; otherwise its loss would prove nothing.
LOGGING = QUICK | {"synchronous_commit": "on", "shared_buffers": "16MB"}
_FOLLOWING = "SELECT state = 'streaming' AND sync_state = %s FROM pg_stat_replication"


@dataclass(frozen=True)
class Pair:
    """`primary` is the first primary, also after it is gone and the standby was promoted."""

    primary: Cluster
    standby: Cluster
    link: Cable
    primary_url: str
    standby_url: str

    @property
    def url(self) -> str:
        """A URL with both servers, with which a client finds the one that accepts writes."""
        return whichever_takes_writes(self.primary_url, self.standby_url)

    def freeze(self) -> None:
        """Let the standby receive nothing: a commit is lost with the primary or, if synchronous, does not return."""
        self.link.cut()

    def wait_caught_up(self) -> None:
        """Return when the standby shows all commits of the primary so far, synced or not."""
        wait_caught_up(self.standby_url, self.primary_url)

    def stop_primary(self, mode: Literal["fast", "immediate"] = "immediate") -> None:
        """In mode `fast` the primary first sends everything to its standby, and would wait for a frozen one."""
        self.primary.stop(mode)

    def promote(self) -> None:
        promote(self.standby_url)


def whichever_takes_writes(first: str, *others: str) -> str:
    """One URL with all of these servers, which have the same roles and databases."""
    parts = urlsplit(first)
    netlocs = [parts.netloc, *(urlsplit(other).netloc.rpartition("@")[2] for other in others)]
    return urlunsplit(parts._replace(netloc=",".join(netlocs), query="target_session_attrs=read-write"))


def wait_caught_up(url: str, with_url: str) -> None:
    """Return when the standby of `url` shows all commits of the server of `with_url` so far."""
    (position,) = execute(with_url, "SELECT pg_current_wal_insert_lsn()::text")[0]
    eventually(lambda: execute(url, "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", position)[0][0])


def promote(url: str) -> None:
    """Promote the standby of `url`. Returns when it accepts writes."""
    assert execute(url, "SELECT pg_promote(wait => true)") == [(True,)]


@contextmanager
def primary_and_standby(*, synchronous: bool) -> Iterator[Pair]:
    """A running primary with its standby. If synchronous, a commit is acknowledged when the standby has synced it."""
    with open_directory("interlock-pair-") as directory:
        binaries = binaries_for(directory)
        with running_server(directory / "primary", binaries) as primary:
            execute(primary.url(), "CREATE DATABASE interlock")
            primary_url = primary.url("interlock", tcp=True)
            with cable_to(primary.url(tcp=True)) as (link, through):
                copy_cluster(primary.root, through, directory / "standby", binaries)
                with running_server(directory / "standby", binaries) as standby:
                    _follow(primary_url, synchronous=synchronous)
                    yield Pair(primary, standby, link, primary_url, standby.url("interlock", tcp=True))


def binaries_for(directory: Path) -> Binaries:
    """The binaries that the owner of `directory` can run."""
    pg_bin = os.environ.get("INTERLOCK_PG_BIN")
    return within_reach(find_binaries(Path(pg_bin) if pg_bin else None), account_for(), directory)


@contextmanager
def running_server(root: Path, binaries: Binaries, settings: Mapping[str, str] = LOGGING) -> Iterator[Cluster]:
    """Start a server; its cluster is created if there is none."""
    cluster = Cluster(root, port="free", tls=False, settings=settings, binaries=binaries)
    try:
        cluster.create()
        cluster.start()
        yield cluster
    finally:
        cluster.stop("immediate")


def copy_cluster(original: Path, url: str, root: Path, binaries: Binaries) -> None:
    """Create in `root` a standby of the running server of `url`, whose cluster is `original`."""
    paths, account = ClusterPaths(root), account_for()
    paths.prepare(account)
    write_whole(paths.password, ClusterPaths(original).password.read_bytes(), account)
    back_up(url, paths.data, binaries, "--write-recovery-conf")


def back_up(url: str, data: Path, binaries: Binaries, *options: str) -> None:
    """Copy the data of the server of `url`, and the WAL that has to be replayed on them."""
    account = account_for()
    make_private(data, account)
    always = (f"--pgdata={data}", f"--dbname={url}", "--wal-method=stream", "--checkpoint=fast", "--no-sync")
    status, _, complaint = run([binaries.tool("pg_basebackup"), *always, *options], account)
    assert status == 0, complaint


def _follow(primary_url: str, *, synchronous: bool) -> None:
    if synchronous:
        execute(primary_url, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        execute(primary_url, "SELECT pg_reload_conf()")
    wait_followed(primary_url, synchronous=synchronous)


def wait_followed(url: str, *, synchronous: bool = False) -> None:
    """Return when a standby receives the writes of the server of `url`."""
    eventually(lambda: execute(url, _FOLLOWING, "sync" if synchronous else "async") == [(True,)])
