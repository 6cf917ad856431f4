"""The database that the control plane stands on: one that was named, or one of its own."""

import asyncio
from pathlib import Path
from typing import Protocol

from interlock.config import Settings
from interlock.embedded import Cluster, cluster_root, find_binaries
from interlock.server.watcher import Watcher
from interlock.stores.postgres import connect, redacted
from interlock.stores.postgres.url import checked, to_the_primary


class ControlDatabase(Protocol):
    """`shown` says which one it is, without a password."""

    @property
    def shown(self) -> str: ...

    async def bring_up(self) -> str:
        """The URL of a database that answers. If this is cancelled, what it began may go on in a thread."""
        ...

    def release(self) -> None:
        """Put away what `bring_up` brought up, if anything. Called once, when none of its threads runs any more."""
        ...


class NamedDatabase:
    """Somebody else's: not answering is an error at once, because the likeliest reason is a mistyped URL. Of several
    servers the primary is meant: after a change of it, everything goes there."""

    def __init__(self, url: str) -> None:
        self._url = url

    @property
    def shown(self) -> str:
        return redacted(self._url)

    async def bring_up(self) -> str:
        url = to_the_primary(checked(self._url))
        async with await connect(url, application_name="interlock up"):
            return url

    def release(self) -> None:
        """It is not ours to stop."""


class EmbeddedDatabase:
    """A PostgreSQL below the data directory, shared by all that use that directory; the last one stops it."""

    def __init__(self, root: Path, pg_bin: Path | None, run_as: str | None) -> None:
        self._root = root
        self._pg_bin = pg_bin
        self._run_as = run_as
        self._attached: Cluster | None = None
        self._watcher: Watcher | None = None

    @property
    def shown(self) -> str:
        return f"PostgreSQL in {self._root}"

    async def bring_up(self) -> str:
        return await asyncio.to_thread(self._attach)

    def release(self) -> None:
        if self._watcher:
            self._watcher.stop()
        if self._attached:
            self._attached.release()

    def _attach(self) -> str:
        binaries = find_binaries(self._pg_bin) if self._pg_bin else None
        cluster = Cluster(self._root, binaries=binaries, run_as=self._run_as)
        cluster.attach()
        self._attached = cluster
        self._watcher = Watcher(cluster)
        self._watcher.start()
        return cluster.url()


def database_for(settings: Settings) -> ControlDatabase:
    """Touches nothing yet."""
    if settings.database_url:
        return NamedDatabase(settings.database_url)
    return EmbeddedDatabase(cluster_root(settings.data_dir.absolute()), settings.pg_bin, settings.pg_user)
