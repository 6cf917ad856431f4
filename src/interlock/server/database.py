"""The database of the control plane: the database that the settings name, or an embedded PostgreSQL."""

import asyncio
import threading
from pathlib import Path
from typing import Protocol

from interlock.config import Settings
from interlock.embedded import Cluster, cluster_root, find_binaries
from interlock.errors import InterlockError
from interlock.logs import events
from interlock.stores.postgres import connect, redacted
from interlock.stores.postgres.url import checked, to_the_primary

log = events(__name__)

_CHECK_INTERVAL = 1.0


class ControlDatabase(Protocol):
    """`shown` describes the database for messages, without a password."""

    @property
    def shown(self) -> str: ...

    async def bring_up(self) -> str:
        """Returns the URL once the database answers. If the call is cancelled, the start may go on in a thread."""
        ...

    def release(self) -> None:
        """Stop using the database, which stops an embedded PostgreSQL without other users. Call this once, after all
        threads of `bring_up` have ended."""
        ...


class NamedDatabase:
    """A database that the operator runs.

    A database that does not answer is an error at once, because the likeliest reason is a mistyped URL. If the URL
    names several servers, only the primary is used: after a failover all connections go to the new primary.
    """

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
        """Does nothing: the operator stops the database."""


class EmbeddedDatabase:
    """A PostgreSQL below the data directory, shared by all processes on that directory; the last process stops it."""

    def __init__(self, root: Path, pg_bin: Path | None, run_as: str | None) -> None:
        self._root = root
        self._pg_bin = pg_bin
        self._run_as = run_as
        self._attached: Cluster | None = None
        self._watcher: ClusterWatcher | None = None

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
        self._watcher = ClusterWatcher(cluster)
        self._watcher.start()
        return cluster.url()


class ClusterWatcher:
    """Restarts the embedded PostgreSQL if its server dies. A thread checks the server every second until `stop()`."""

    def __init__(self, cluster: Cluster, interval: float = _CHECK_INTERVAL) -> None:
        self._cluster = cluster
        self._interval = interval
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="database watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the watcher no longer uses the cluster. It completes a restart that is in progress."""
        self._stopping.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopping.wait(self._interval):
            try:
                if self._cluster.ensure_running():
                    log.warning("database.restarted", extra={"root": str(self._cluster.root)})
            except InterlockError as error:
                log.error("database.restart_failed", extra={"root": str(self._cluster.root), "reason": str(error)})


def database_for(settings: Settings) -> ControlDatabase:
    """The database that the settings describe. Nothing is opened or started yet."""
    if settings.database_url:
        return NamedDatabase(settings.database_url)
    return EmbeddedDatabase(cluster_root(settings.data_dir.absolute()), settings.pg_bin, settings.pg_user)
