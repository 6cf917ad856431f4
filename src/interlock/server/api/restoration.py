"""The route that restores a backup, into a new instance or into a running one."""

from typing import Any

from fastapi import APIRouter, Request, Response

from interlock.errors import BadSpec
from interlock.instances import records
from interlock.server.api.backup_models import BACKUPS, Restore
from interlock.server.api.dependencies import ControlDep, RecordChangeDep
from interlock.server.api.idempotency import repeatable_id
from interlock.server.api.instance_models import INSTANCES, Instance

router = APIRouter(prefix="/backups/{id}", tags=["backups"])


@router.post("/restore", status_code=202, summary="Restore a backup")
async def restore(
    id: str,  # noqa: A002
    body: Restore,
    control: ControlDep,
    change: RecordChangeDep,
    request: Request,
    response: Response,
) -> Instance:
    """If the restore into a new instance fails, that instance is removed again. A restore into a running instance is
    complete or changes nothing."""
    options = body.model_dump(exclude={"name", "into"})
    if (body.name is None) == (body.into is None) or (body.into and any(options.values())):
        raise BadSpec(
            "Give either `name`, with options for the new instance, or `into`, which takes no options: "
            "a backup is restored into a new instance or into a running one."
        )
    if body.driver is not None and body.driver not in control.context.drivers:
        raise BadSpec(f"This server has no driver {body.driver!r}: use one of {', '.join(control.context.drivers)}.")
    repeated = repeatable_id(request, body.name or body.into or "")

    async def work(connection: Any) -> records.InstanceRecord:
        backup = (await BACKUPS.found(control, connection, id)).id
        if body.into is not None:
            instance = (await INSTANCES.found(control, connection, body.into)).id
            key = repeated and repeated.replace("-", "")
            return await control.backups.restore_into(
                connection, backup, instance, key=key, by=change.actor, check=change.check
            )
        name = body.name or ""
        return await control.backups.restore(connection, backup, name, new_id=repeated, by=change.actor, **options)

    record = change.with_etag(await control.carry_out(work))
    response.headers["Location"] = f"/api/v1/instances/{record.id}"
    return Instance.of(record)
