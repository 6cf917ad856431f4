"""Which machine, and which directory on it, the driver `local` of a database serves: one, by a claim.

Its instances are processes and files of one machine. A replica elsewhere, or on another directory, would take part in
the work on them and see nothing: it would take those that run for vanished. So it does not start.

A database that is embedded lies beside the instances, in the same directory: wherever that was moved to, they are
there as well. So there the claim is passed on.
"""

import os
import secrets
from pathlib import Path
from typing import Any

from interlock.coordination.claims import AsyncClaims, Claimed, Pending, Taken
from interlock.errors import DataDirectoryUnusable, DriverElsewhere, RetryTransaction
from interlock.names import plain_name
from interlock.server.once_file import made_once

_MACHINE_ID = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_PATIENCE = 5.0
_LONGEST_PATH = 150
"""Bytes: its end is what people know it by. An owner may have 255 of them."""


async def claim_local(connection: Any, schema: str, owner: str, *, embedded: bool) -> None:
    """Make `owner` the place that is served, or confirm it. Raises DriverElsewhere."""
    claims = AsyncClaims(lambda: schema, "driver", plain_name)
    answer = await claims.claim(connection, "local", owner, timeout=_PATIENCE, again=True)
    if embedded and isinstance(answer, Taken):
        await claims.transfer(connection, "local", answer.owner, owner, timeout=_PATIENCE)
        answer = await claims.claim(connection, "local", owner, timeout=_PATIENCE)
    if isinstance(answer, Pending):
        raise RetryTransaction("Another replica is just claiming the driver local: try again.", sqlstate="")
    if isinstance(answer, Taken):
        raise DriverElsewhere(
            f"The instances of the driver local are those of {answer.owner}, and this is {owner}: use the machine and "
            "the --data-dir of those, another database, or another driver (INTERLOCK_DRIVERS).",
            owner=answer.owner,
        )
    assert isinstance(answer, Claimed)


def place(data_dir: Path) -> str:
    """The machine, the directory's own number, and where it is.

    Containers may have no number as machines, or all the same, and the directories of machines that were copied have
    the same: so both count. Raises DataDirectoryUnusable.
    """
    try:
        number = made_once(data_dir / "directory-id", secrets.token_hex(8))
    except OSError as error:
        raise DataDirectoryUnusable(
            f"The driver local needs a place for instances, and {data_dir} is none ({error.strerror}): choose another "
            "directory with --data-dir, or another driver (INTERLOCK_DRIVERS)."
        ) from error
    shown = os.fsencode(data_dir)[-_LONGEST_PATH:].decode(errors="ignore")
    return f"{_machine_id()}-{number[:16]}:{shown}"


def _machine_id() -> str:
    for file in _MACHINE_ID:
        try:
            if found := file.read_text().strip():
                return found[:32]
        except OSError:
            continue
    return "machine"
