"""The name of this process, for the other replicas and for status pages."""

import os
import secrets
import socket
from functools import cache

# Drawn at import and not on first use: two threads that call at the same time get one name.
_RANDOM = secrets.token_hex(3)


@cache
def _chosen_by(pid: int) -> str:
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{pid}-{_RANDOM}"


def replica_id() -> str:
    """Return this process's name among the replicas: ``POD_NAME`` if it is set, else the host's name, the pid and a
    random part.

    The name stays the same for the life of the process. Without ``POD_NAME`` a forked child is another replica.
    """
    return _chosen_by(os.getpid())
