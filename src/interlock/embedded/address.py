"""Finds the URL of a running cluster. Every command without a named database does so: this module imports little."""

import os
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, unquote_to_bytes, urlsplit, urlunsplit

from interlock import config
from interlock.embedded.paths import ClusterPaths, readable
from interlock.embedded.postmaster import Postmaster, live_postmaster
from interlock.errors import ClusterFailed, ConfigurationError, DataDirectoryUnusable

# Not "interlock": the schema of that name would come first in its search path, as "$user".
SUPERUSER = "postgres"
LOOPBACK = "127.0.0.1"
LOOPBACKS = (LOOPBACK, "::1")


_CLUSTER = "postgres"


def cluster_root(data_dir: Path) -> Path:
    """Returns the directory of the cluster that `interlock up` runs."""
    return data_dir / _CLUSTER


def default_url() -> str:
    """Returns the URL of the database for a program that names no database.

    It is INTERLOCK_DATABASE_URL, else the URL of the `interlock up` that runs on the data directory, if this user may
    read its password. Raises ConfigurationError if neither exists.
    """
    if url := config.database_url():
        return url
    data_dir = config.data_dir()
    try:
        if url := running_url(cluster_root(data_dir)):
            return url
        why = f"no `interlock up` runs on {data_dir}"
    except DataDirectoryUnusable:
        why = f"{data_dir} cannot be read"
    raise ConfigurationError(
        f"No database was named, and {why}: set INTERLOCK_DATABASE_URL (`interlock env` prints it while "
        "`interlock up` runs), or pass url=."
    ) from None


def leads_to(url: str, root: Path) -> bool:
    """True if the URL names the Unix socket of the cluster in `root`. The cluster does not have to run."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    host = unquote(parts.netloc.rpartition("@")[2].rpartition(":")[0])
    return Path(host or parse_qs(parts.query).get("host", [""])[0]) in ClusterPaths.below(root).possible_sockets()


def with_socket_parameter(url: str) -> str:
    """Returns the URL with its Unix socket in ``?host=``, because SQLAlchemy cannot decode it in place of the host."""
    parts = urlsplit(url)
    user, _, address = parts.netloc.rpartition("@")
    host, _, port = address.rpartition(":")
    if parts.query or not host.startswith("%2F"):
        return url
    query = f"host={quote(unquote_to_bytes(host), safe='/')}&port={port}"
    return urlunsplit(parts._replace(netloc=f"{user}@", query=query))


def running_url(root: Path, database: str = "postgres", *, tcp: bool = False) -> str | None:
    """Returns the URL of the cluster in `root`, or None if that cluster does not accept connections."""
    paths = ClusterPaths.below(root)
    with readable(paths.root):
        found = live_postmaster(paths.data)
        return url_of(paths, found, database, tcp=tcp) if found and found.is_ready else None


def url_of(paths: ClusterPaths, postmaster: Postmaster, database: str, *, tcp: bool) -> str:
    """Returns a URL that has the superuser's password in it.

    With `tcp`, raises ClusterFailed if the cluster has only a Unix socket.
    """
    if tcp and not postmaster.listens_on:
        raise ClusterFailed(
            f"The cluster in {paths.root} listens on no TCP port: stop the cluster and start it with a port."
        )
    host = LOOPBACK if tcp else quote(os.fsencode(postmaster.sockets), safe="")
    password = paths.password.read_text()
    return f"postgresql://{SUPERUSER}:{password}@{host}:{postmaster.port}/{quote(database, safe='')}"
