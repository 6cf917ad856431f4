"""Who this process is, to the other replicas and to whoever reads a status page."""

import os
import secrets
import socket
from functools import cache


@cache
def _chosen_by(pid: int) -> str:
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{pid}-{secrets.token_hex(3)}"


def replica_id() -> str:
    """This process's name among the replicas: ``POD_NAME`` where that is set, else host, pid and a random part.

    It stays the same for the life of the process. A forked child is another process, and so another replica.
    """
    return _chosen_by(os.getpid())
