"""Where to connect to a cluster. Every command that was told of no database looks here, so it loads little."""

import os
from pathlib import Path
from urllib.parse import quote

from interlock.embedded.layout import Layout, readable
from interlock.embedded.postmaster import Postmaster, live_postmaster
from interlock.errors import ClusterFailed

# Not "interlock": the schema of that name would come first in its search path, as "$user".
SUPERUSER = "postgres"
LOOPBACK = "127.0.0.1"


def running_url(root: Path, database: str = "postgres", *, tcp: bool = False) -> str | None:
    """Where to connect to the cluster in `root`, or None if none is there that accepts connections."""
    layout = Layout.below(root)
    with readable(layout.root):
        found = live_postmaster(layout.data)
        return url_of(layout, found, database, tcp=tcp) if found and found.is_ready else None


def url_of(layout: Layout, postmaster: Postmaster, database: str, *, tcp: bool) -> str:
    """A URL with the superuser's password in it. Raises ClusterFailed if TCP is asked of one that has only a socket."""
    if tcp and not postmaster.listens_on:
        raise ClusterFailed(f"The cluster in {layout.root} listens on no TCP port: stop it and start it with a port.")
    host = LOOPBACK if tcp else quote(os.fsencode(postmaster.sockets), safe="")
    password = layout.password.read_text()
    return f"postgresql://{SUPERUSER}:{password}@{host}:{postmaster.port}/{quote(database, safe='')}"
