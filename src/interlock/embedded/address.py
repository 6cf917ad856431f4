"""Where to connect to a cluster."""

import os
from urllib.parse import quote

from interlock.embedded.creation import SUPERUSER
from interlock.embedded.layout import Layout
from interlock.embedded.postmaster import Postmaster
from interlock.embedded.tls import ADDRESSES
from interlock.errors import ClusterFailed


def url_of(layout: Layout, postmaster: Postmaster, database: str, *, tcp: bool) -> str:
    """A URL with the superuser's password in it. Raises ClusterFailed if TCP is asked of one that has only a socket."""
    if tcp and not postmaster.listens_on:
        raise ClusterFailed(f"The cluster in {layout.root} listens on no TCP port: stop it and start it with a port.")
    host = ADDRESSES[0] if tcp else quote(os.fsencode(postmaster.sockets), safe="")
    password = layout.password.read_text()
    return f"postgresql://{SUPERUSER}:{password}@{host}:{postmaster.port}/{quote(database, safe='')}"
