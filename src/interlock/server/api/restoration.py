"""Restoring a backup: into a new instance, or into one that is there."""

from typing import Any

from fastapi import APIRouter, Request, Response

from interlock.errors import BadSpec
from interlock.instances import records
from interlock.server.api.backup_models import BACKUPS, Restore
from interlock.server.api.change import Changing
from interlock.server.api.dependencies import Running
from interlock.server.api.idempotency import repeatable_id
from interlock.server.api.instance_models import INSTANCES, Instance

router = APIRouter(prefix="/backups/{id}", tags=["backups"])


@router.post("/restore", status_code=202, summary="Restore a backup")
async def restore(
    id: str,  # noqa: A002
    wanted: Restore,
    control: Running,
    change: Changing,
    request: Request,
    response: Response,
) -> Instance:
    """Into a new instance, which is undone if that fails; or into one that runs, all of it or nothing."""
    wishes = wanted.model_dump(exclude={"name", "into"})
    if (wanted.name is None) == (wanted.into is None) or (wanted.into and any(wishes.values())):
        raise BadSpec("Say where to restore it: the name of a new instance and what that is like, or into which one.")
    if wanted.driver is not None and wanted.driver not in control.context.drivers:
        raise BadSpec(f"There is no driver {wanted.driver!r} here: use one of {', '.join(control.context.drivers)}.")
    repeated = repeatable_id(request, wanted.name or wanted.into or "")

    async def work(connection: Any) -> records.InstanceRecord:
        backup = (await BACKUPS.found(control, connection, id)).id
        if wanted.into is not None:
            instance = (await INSTANCES.found(control, connection, wanted.into)).id
            key = repeated and repeated.replace("-", "")
            return await control.backups.restore_into(
                connection, backup, instance, key=key, by=change.actor, check=change.check
            )
        name = wanted.name or ""
        return await control.backups.restore(connection, backup, name, new_id=repeated, by=change.actor, **wishes)

    record = change.told(await control.carry_out(work))
    response.headers["Location"] = f"/api/v1/instances/{record.id}"
    return Instance.of(record)
