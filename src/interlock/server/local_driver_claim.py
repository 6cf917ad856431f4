"""The claim that binds the driver `local` of a database to one machine and one data directory.

The driver's instances are processes and files of one machine. A replica on another machine or directory would
not find these instances, and would record running instances as vanished. So such a replica refuses to start.

An embedded database is in the same directory as the instances. If the directory is moved, both move together. So a
replica with an embedded database transfers the claim to the new directory.
"""

import os
import secrets
from pathlib import Path
from typing import Any

from interlock.coordination.claims import AsyncClaims, Claimed, Pending, Taken
from interlock.errors import DataDirectoryUnusable, DriverElsewhere, RetryTransaction
from interlock.names import plain_name
from interlock.server.data_directory import create_once

_MACHINE_ID_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_TIMEOUT = 5.0
_LONGEST_PATH = 150
"""Bytes of the path's end in an owner, by which an operator recognises the directory. An owner may have 255 bytes."""


async def claim_local_driver(connection: Any, schema: str, owner: str, *, embedded: bool) -> None:
    """Claim the driver for `owner`, or confirm its claim. Raises DriverElsewhere if another owner has the claim."""
    claims = AsyncClaims(lambda: schema, "driver", plain_name)
    answer = await claims.claim(connection, "local", owner, timeout=_TIMEOUT, again=True)
    if embedded and isinstance(answer, Taken):
        await claims.transfer(connection, "local", answer.owner, owner, timeout=_TIMEOUT)
        answer = await claims.claim(connection, "local", owner, timeout=_TIMEOUT)
    if isinstance(answer, Pending):
        raise RetryTransaction("Another replica is claiming the driver local at this moment: try again.", sqlstate="")
    if isinstance(answer, Taken):
        raise DriverElsewhere(
            f"The instances of the driver local are on {answer.owner}, and this replica is on {owner}: start the "
            "replica on that machine with that --data-dir, or use another database or another driver "
            "(INTERLOCK_DRIVERS).",
            owner=answer.owner,
        )
    assert isinstance(answer, Claimed)


def local_owner(data_dir: Path) -> str:
    """Returns the owner of the claim: the machine's id, the directory's id, and the directory's path.

    Both ids are needed: containers may have no machine id or share one, and a copied machine has a directory with the
    same id. Raises DataDirectoryUnusable.
    """
    try:
        directory_id = create_once(data_dir / "directory-id", secrets.token_hex(8))
    except OSError as error:
        raise DataDirectoryUnusable(
            f"The driver local cannot keep instances in {data_dir} ({error.strerror}): choose another directory with "
            "--data-dir, or another driver (INTERLOCK_DRIVERS)."
        ) from error
    shown = os.fsencode(data_dir)[-_LONGEST_PATH:].decode(errors="ignore")
    return f"{_machine_id()}-{directory_id[:16]}:{shown}"


def _machine_id() -> str:
    for file in _MACHINE_ID_FILES:
        try:
            if found := file.read_text().strip():
                return found[:32]
        except OSError:
            continue
    return "machine"
