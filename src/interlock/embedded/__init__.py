"""A real PostgreSQL cluster as processes of this machine: found, created, started, shared, stopped and deleted.

::

    cluster = Cluster(Path("/var/lib/interlock"))
    with cluster.shared():
        connect(cluster.url())

Everything here is synchronous and safe to call from several threads and processes at once. What PostgreSQL itself
guarantees about its data is what holds here: commits are durable, and a killed cluster recovers when it starts again.
"""

from interlock.embedded.accounts import Account, account_for
from interlock.embedded.binaries import OLDEST_MAJOR, Binaries, all_binaries, find_binaries
from interlock.embedded.cluster import Cluster, running_url
from interlock.embedded.install import within_reach

__all__ = [
    "OLDEST_MAJOR",
    "Account",
    "Binaries",
    "Cluster",
    "account_for",
    "all_binaries",
    "find_binaries",
    "running_url",
    "within_reach",
]
