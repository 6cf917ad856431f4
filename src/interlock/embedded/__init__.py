"""Finds, creates, starts, shares, stops and deletes a real PostgreSQL cluster, which runs as processes of this machine.

::

    cluster = Cluster(Path("/var/lib/interlock"))
    with cluster.shared():
        connect(cluster.url())

All functions are synchronous, and several threads and processes may call them at once. PostgreSQL's own guarantees
hold: commits are durable, and a killed cluster recovers when it is started again.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlock.embedded.accounts import Account, account_for
    from interlock.embedded.address import cluster_root, default_url, leads_to, running_url, with_socket_parameter
    from interlock.embedded.binaries import OLDEST_MAJOR, Binaries, all_binaries, find_binaries
    from interlock.embedded.cluster import Cluster
    from interlock.embedded.install import within_reach

__all__ = [
    "OLDEST_MAJOR",
    "Account",
    "Binaries",
    "Cluster",
    "account_for",
    "all_binaries",
    "cluster_root",
    "default_url",
    "find_binaries",
    "leads_to",
    "running_url",
    "with_socket_parameter",
    "within_reach",
]

_HOMES = {
    "Account": "accounts",
    "account_for": "accounts",
    "cluster_root": "address",
    "default_url": "address",
    "leads_to": "address",
    "running_url": "address",
    "with_socket_parameter": "address",
    "OLDEST_MAJOR": "binaries",
    "Binaries": "binaries",
    "all_binaries": "binaries",
    "find_binaries": "binaries",
    "Cluster": "cluster",
    "within_reach": "install",
}


def __getattr__(name: str) -> Any:
    """Imports a name when it is first used, because most commands only need to know where a cluster is."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
