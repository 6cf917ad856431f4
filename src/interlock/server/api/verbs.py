"""What else may be asked of an instance. Each is answered at once, and done by an orchestration."""

from fastapi import APIRouter

from interlock.server.api.change import Changing
from interlock.server.api.dependencies import Running
from interlock.server.api.instance_models import INSTANCES, Instance, NewParameters, NewStorage

router = APIRouter(prefix="/instances/{id}", tags=["instances"])


@router.post("/stop", status_code=202, summary="Stop an instance")
async def stop(id: str, control: Running, change: Changing) -> Instance:  # noqa: A002
    return await INSTANCES.change(control, change, id, control.instances.stop)


@router.post("/start", status_code=202, summary="Start an instance")
async def start(id: str, control: Running, change: Changing) -> Instance:  # noqa: A002
    return await INSTANCES.change(control, change, id, control.instances.start)


@router.post("/restart", status_code=202, summary="Restart an instance")
async def restart(id: str, control: Running, change: Changing) -> Instance:  # noqa: A002
    return await INSTANCES.change(control, change, id, control.instances.restart)


@router.post("/reset-password", status_code=202, summary="Give its owner a new password")
async def reset_password(id: str, control: Running, change: Changing) -> Instance:  # noqa: A002
    """The new one is told by `credential`, when this is done."""
    return await INSTANCES.change(control, change, id, control.instances.reset_password)


@router.put("/parameters", status_code=202, summary="Set PostgreSQL's parameters")
async def set_parameters(id: str, wanted: NewParameters, control: Running, change: Changing) -> Instance:  # noqa: A002
    """All that are wanted. It is restarted if they need that, unless it is stopped."""
    return await INSTANCES.change(control, change, id, control.instances.set_parameters, wanted.parameters)


@router.put("/storage", status_code=202, summary="Give an instance more storage")
async def resize(id: str, wanted: NewStorage, control: Running, change: Changing) -> Instance:  # noqa: A002
    """Never less. Where its driver cannot, it is refused at once."""
    return await INSTANCES.change(control, change, id, control.instances.resize, wanted.storage)


@router.post("/cancel", status_code=202, summary="Cancel what works on an instance")
async def cancel(id: str, control: Running, change: Changing) -> Instance:  # noqa: A002
    """A creation is undone. A deletion leaves what it has not removed, and the names: delete it again. Anything else
    ends where the instance is seen to be."""
    return await INSTANCES.change(control, change, id, control.instances.cancel)


@router.post("/abandon", status_code=202, summary="Abandon an instance that could not be removed")
async def abandon(id: str, control: Running, change: Changing) -> Instance:  # noqa: A002
    """Of one that is `failed`, where its driver cannot be reached any more: its names are freed, and what there is of
    it stays where it is."""
    return await INSTANCES.change(control, change, id, control.instances.abandon)
