"""A primary and its streaming standby, both of our own binaries.

The standby receives over a `Cable`. To fail over with a loss that is certain, the cable is cut: a commit after that is
never sent on, whatever the primary is able to say before its end. Pausing the replay would not do, because the standby
replays all that it has received before it is promoted; nor would stopping its receiver, because what waits in the
socket may be read when it has to go on in order to end.
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

# What a server answers to a commit has to be in its WAL: else losing it would prove nothing.
LOGGING = QUICK | {"synchronous_commit": "on", "shared_buffers": "16MB"}
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
        return whichever_takes_writes(self.primary_url, self.standby_url)

    def freeze(self) -> None:
        """From here on the standby gets nothing: a commit is lost with the primary or, if synchronous, does not end."""
        self.link.cut()

    def wait_caught_up(self) -> None:
        """Return when the standby shows all that the primary has committed until now, on disk there or not."""
        wait_caught_up(self.standby_url, self.primary_url)

    def stop_primary(self, mode: Literal["fast", "immediate"] = "immediate") -> None:
        """In mode `fast` it first gives its standby all that it has, and would wait for a frozen one."""
        self.primary.stop(mode)

    def promote(self) -> None:
        promote(self.standby_url)


def whichever_takes_writes(first: str, *others: str) -> str:
    """One URL for all of these servers, which have the same roles and databases."""
    parts = urlsplit(first)
    netlocs = [parts.netloc, *(urlsplit(other).netloc.rpartition("@")[2] for other in others)]
    return urlunsplit(parts._replace(netloc=",".join(netlocs), query="target_session_attrs=read-write"))


def wait_caught_up(url: str, with_url: str) -> None:
    """Return when the standby of `url` shows all that the server of `with_url` has committed until now."""
    (position,) = execute(with_url, "SELECT pg_current_wal_insert_lsn()::text")[0]
    eventually(lambda: execute(url, "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", position)[0][0])


def promote(url: str) -> None:
    """Return when the standby of `url` can be written to."""
    assert execute(url, "SELECT pg_promote(wait => true)") == [(True,)]


@contextmanager
def primary_and_standby(*, synchronous: bool) -> Iterator[Pair]:
    """Both run, and the standby follows. If synchronous, a commit is acknowledged when the standby has it on disk."""
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
    """Those that whoever runs the servers in `directory` can run."""
    pg_bin = os.environ.get("INTERLOCK_PG_BIN")
    return within_reach(find_binaries(Path(pg_bin) if pg_bin else None), account_for(), directory)


@contextmanager
def running_server(root: Path, binaries: Binaries, settings: Mapping[str, str] = LOGGING) -> Iterator[Cluster]:
    """Made, if there is none yet."""
    cluster = Cluster(root, port="free", tls=False, settings=settings, binaries=binaries)
    try:
        cluster.create()
        cluster.start()
        yield cluster
    finally:
        cluster.stop("immediate")


def copy_cluster(original: Path, url: str, root: Path, binaries: Binaries) -> None:
    """In `root` a cluster of ours that follows the server of `url`: the one in `original`, which runs."""
    paths, account = ClusterPaths(root), account_for()
    paths.prepare(account)
    write_whole(paths.password, ClusterPaths(original).password.read_bytes(), account)
    back_up(url, paths.data, binaries, "--write-recovery-conf")


def back_up(url: str, data: Path, binaries: Binaries, *options: str) -> None:
    """The data of the server of `url`, and what has to be replayed on them."""
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
    """Return when one standby gets what the server of `url` writes."""
    eventually(lambda: execute(url, _FOLLOWING, "sync" if synchronous else "async") == [(True,)])
