"""The actions on an instance. Each request is answered at once, and an orchestration carries out the action."""

from fastapi import APIRouter

from interlock.server.api.dependencies import ControlDep, RecordChangeDep
from interlock.server.api.instance_models import INSTANCES, Instance, NewParameters, NewStorage

router = APIRouter(prefix="/instances/{id}", tags=["instances"])


@router.post("/stop", status_code=202, summary="Stop an instance")
async def stop(id: str, control: ControlDep, change: RecordChangeDep) -> Instance:  # noqa: A002
    return await INSTANCES.change(control, change, id, control.instances.stop)


@router.post("/start", status_code=202, summary="Start an instance")
async def start(id: str, control: ControlDep, change: RecordChangeDep) -> Instance:  # noqa: A002
    return await INSTANCES.change(control, change, id, control.instances.start)


@router.post("/restart", status_code=202, summary="Restart an instance")
async def restart(id: str, control: ControlDep, change: RecordChangeDep) -> Instance:  # noqa: A002
    return await INSTANCES.change(control, change, id, control.instances.restart)


@router.post("/reset-password", status_code=202, summary="Reset the owner's password")
async def reset_password(id: str, control: ControlDep, change: RecordChangeDep) -> Instance:  # noqa: A002
    """When the orchestration is complete, `credential` answers with the new password."""
    return await INSTANCES.change(control, change, id, control.instances.reset_password)


@router.put("/parameters", status_code=202, summary="Set PostgreSQL's parameters")
async def set_parameters(
    id: str,  # noqa: A002
    body: NewParameters,
    control: ControlDep,
    change: RecordChangeDep,
) -> Instance:
    """The body replaces all parameters. A running instance is restarted if the new parameters need a restart."""
    return await INSTANCES.change(control, change, id, control.instances.set_parameters, body.parameters)


@router.put("/storage", status_code=202, summary="Give an instance more storage")
async def resize(id: str, body: NewStorage, control: ControlDep, change: RecordChangeDep) -> Instance:  # noqa: A002
    """Storage cannot be reduced. The request is refused at once if the instance's driver cannot resize."""
    return await INSTANCES.change(control, change, id, control.instances.resize, body.storage)


@router.post("/cancel", status_code=202, summary="Cancel the orchestration that works on an instance")
async def cancel(id: str, control: ControlDep, change: RecordChangeDep) -> Instance:  # noqa: A002
    """A cancelled creation is undone. After a cancelled deletion the instance keeps its names and all parts that were
    not removed yet: delete the instance again. After any other orchestration the record takes the state in which the
    driver finds the instance."""
    return await INSTANCES.change(control, change, id, control.instances.cancel)


@router.post("/abandon", status_code=202, summary="Abandon an instance that could not be removed")
async def abandon(id: str, control: ControlDep, change: RecordChangeDep) -> Instance:  # noqa: A002
    """For a `failed` instance whose driver cannot be reached any more: the instance's names are released, and
    everything that the driver has of the instance stays."""
    return await INSTANCES.change(control, change, id, control.instances.abandon)
