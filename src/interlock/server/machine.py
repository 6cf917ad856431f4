"""Which machine, and which directory on it, the driver `local` of a database serves: one, by a claim.

Its instances are processes and files of one machine. A replica elsewhere, or on another directory, would take part in
the work on them and see nothing: it would take those that run for vanished. So it does not start.
"""

import socket
from pathlib import Path
from typing import Any

from interlock.coordination.claims import AsyncClaims, Claimed, Pending, Taken
from interlock.coordination.claims.names import plain_name
from interlock.errors import DriverElsewhere, RetryTransaction

_MACHINE_ID = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_PATIENCE = 5.0


async def claim_local(connection: Any, schema: str, directory: Path) -> None:
    """Make `directory` on this machine the one, or confirm it. Raises DriverElsewhere."""
    claims = AsyncClaims(lambda: schema, "driver", plain_name)
    owner = f"{machine_id()}:{directory}"
    answer = await claims.claim(connection, "local", owner, timeout=_PATIENCE, again=True)
    if isinstance(answer, Pending):
        raise RetryTransaction("Another replica is just claiming the driver local: try again.", sqlstate="")
    if isinstance(answer, Taken):
        raise DriverElsewhere(
            f"The instances of the driver local are those of {answer.owner}, and this is {owner}: use the machine and "
            "the --data-dir of those, another database, or another driver (INTERLOCK_DRIVERS).",
            owner=answer.owner,
        )
    assert isinstance(answer, Claimed)


def machine_id() -> str:
    """The same after each start of the machine; its host name where the system gives it no number."""
    for file in _MACHINE_ID:
        try:
            if found := file.read_text().strip():
                return found
        except OSError:
            continue
    return socket.gethostname()
