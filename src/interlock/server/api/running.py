"""What a request is answered with: the control plane of this replica, once it is ready."""

from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from interlock.errors import BackupUnknown, InstanceUnknown, InterlockError
from interlock.instances.backups.records import Backup
from interlock.instances.records import Instance
from interlock.names import dns_label
from interlock.server.control import Control
from interlock.server.startup import Startup


def running(request: Request) -> Control:
    """Requests do not come this far before it is ready; but while it stops they do."""
    startup: Startup = request.app.state.startup
    control = startup.control
    if control is None or control.stopping.is_set():
        raise HTTPException(503, "This replica is starting or stopping: ask again in a moment.", {"Retry-After": "1"})
    return control


Running = Annotated[Control, Depends(running)]


async def found(control: Control, connection: Any, id_or_name: str) -> Instance:
    """Raises InstanceUnknown. A name is found in every spelling in which it could have been given."""
    if not id_or_name.isprintable():  # which the database would refuse to look for
        raise InstanceUnknown(f"There is no instance {id_or_name!r}: list those that there are.")
    return await control.instances.records.find(connection, _spelt(id_or_name))


async def found_backup(control: Control, connection: Any, id: str) -> Backup:  # noqa: A002
    """Raises BackupUnknown."""
    if not id.isprintable():
        raise BackupUnknown(f"There is no backup {id!r}: list those that there are.")
    return await control.backups.records.find(connection, id.lower())


def _spelt(id_or_name: str) -> str:
    """As names are kept: in lower case, as ids are too, and in ASCII."""
    try:
        return dns_label(id_or_name)
    except InterlockError:
        return id_or_name.lower()
