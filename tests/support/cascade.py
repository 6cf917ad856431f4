"""Three servers in a row: a primary, the standby that follows it, and one that follows the standby.

Clients reach the primary over a `Cable`. When that is cut, the primary vanishes for them without a signal, and keeps
running.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from interlock.embedded.files import append
from interlock.embedded.paths import ClusterPaths
from support.postgres import execute, open_directory
from support.proxy import Cable, cable_to
from support.replication import (
    binaries_for,
    copy_cluster,
    primary_and_standby,
    running_server,
    wait_followed,
    whichever_takes_writes,
)
from support.waiting import eventually


@dataclass(frozen=True)
class Chain:
    """`first`, `second`, `third` are their URLs, in the order in which they can take over."""

    first: str
    second: str
    third: str
    to_first: Cable
    to_third: Cable

    @property
    def url(self) -> str:
        return whichever_takes_writes(self.first, self.second, self.third)

    def lose_first(self) -> None:
        self.to_first.cut()

    def freeze_third(self) -> None:
        """The third server receives nothing from here on: later commits of the second are lost with it."""
        self.to_third.cut()

    def close_second(self) -> None:
        """The second server accepts no writes any more, and its connections stay open."""
        execute(self.second, "ALTER SYSTEM SET default_transaction_read_only = on")
        execute(self.second, "SELECT pg_reload_conf()")
        eventually(lambda: execute(self.second, "SHOW transaction_read_only") == [("on",)])


@contextmanager
def three_servers() -> Iterator[Chain]:
    """All three run and replicate asynchronously."""
    with primary_and_standby(synchronous=False) as pair, open_directory("interlock-third-") as directory:
        binaries, root = binaries_for(directory), directory / "third"
        # Copied from the primary: a standby of one without full_page_writes cannot be copied.
        copy_cluster(pair.primary.root, pair.primary.url(tcp=True), root, binaries)
        with cable_to(pair.standby.url(tcp=True)) as (link, upstream), cable_to(pair.primary_url) as (cable, through):
            append(ClusterPaths(root).data / "postgresql.auto.conf", f"primary_conninfo = '{upstream}'\n")
            with running_server(root, binaries) as third:
                wait_followed(pair.standby_url)
                yield Chain(through, pair.standby_url, third.url("interlock", tcp=True), cable, link)
