"""Brings the embedded PostgreSQL back when its server died under us."""

import threading

from interlock.embedded import Cluster
from interlock.errors import InterlockError
from interlock.logs import events

log = events(__name__)

_INTERVAL = 1.0


class Watcher:
    """Looks every second, in a thread of its own, until `stop()`."""

    def __init__(self, cluster: Cluster, interval: float = _INTERVAL) -> None:
        self._cluster = cluster
        self._interval = interval
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="database watcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return when it no longer touches the cluster; a restart that is under way comes to its end first."""
        self._stopping.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopping.wait(self._interval):
            try:
                if self._cluster.ensure_running():
                    log.warning("database.restarted", extra={"root": str(self._cluster.root)})
            except InterlockError as error:
                log.error("database.restart_failed", extra={"root": str(self._cluster.root), "reason": str(error)})
