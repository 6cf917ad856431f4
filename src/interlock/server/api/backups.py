"""The routes of backups: create, list, show, verify, delete."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from interlock.instances.backups import records
from interlock.instances.backups.model import State
from interlock.server.api.backup_models import BACKUPS, Backup, BackupPage, NewBackup
from interlock.server.api.dependencies import ChangeDep, ControlDep, RecordChangeDep
from interlock.server.api.idempotency import repeatable_id
from interlock.server.api.instance_models import INSTANCES
from interlock.server.api.pagination import ListQuery
from interlock.server.api.record_models import Text
from interlock.server.control import Control

router = APIRouter(tags=["backups"])

_DEFAULT = NewBackup(format="file")
"""The body that is used for a request without a body."""


class InstanceBackupQuery(ListQuery):
    state: list[State] = Field([], description="Only backups in one of these states.")


class BackupQuery(InstanceBackupQuery):
    instance: Text | None = Field(
        None, description="Only backups of the instance with this id or name; the instance may be deleted."
    )


@router.post("/instances/{id}/backups", status_code=202, summary="Back up an instance")
async def make(
    id: str,  # noqa: A002
    control: ControlDep,
    change: ChangeDep,
    request: Request,
    response: Response,
    body: NewBackup = _DEFAULT,
) -> Backup:
    """The answer comes at once. The work goes on until the backup is `made` or `failed`."""
    repeated = repeatable_id(request, id)

    async def work(connection: Any) -> records.BackupRecord:
        instance = (await INSTANCES.found(control, connection, id)).id
        return await control.backups.make(connection, instance, body.format, id=repeated, by=change.actor)

    record = change.with_etag(await control.carry_out(work))
    response.headers["Location"] = f"/api/v1/backups/{record.id}"
    return Backup.of(record)


@router.get("/instances/{id}/backups", summary="List the backups of an instance")
async def list_of_one(
    id: str,  # noqa: A002
    query: Annotated[InstanceBackupQuery, Query()],
    control: ControlDep,
) -> BackupPage:
    return await _page(control, query, (await INSTANCES.read(control, id)).id)


@router.get("/backups", summary="List backups")
async def list_(query: Annotated[BackupQuery, Query()], control: ControlDep) -> BackupPage:
    """The newest backups come first."""
    return await _page(control, query, query.instance)


@router.get("/backups/{id}", summary="Show a backup")
async def show(id: str, control: ControlDep, response: Response) -> Backup:  # noqa: A002
    """`id` is the backup's id, or at least its first eight characters."""
    return await BACKUPS.show(control, id, response)


@router.post("/backups/{id}/verify", status_code=202, summary="Verify a backup")
async def verify(id: str, control: ControlDep, change: RecordChangeDep) -> Backup:  # noqa: A002
    """Compares the backup's files with their recorded checksum, and reads them to the end. `verified_at` is the time of
    the last verification that succeeded."""
    return await BACKUPS.change(control, change, id, control.backups.verify)


@router.delete("/backups/{id}", status_code=202, summary="Delete a backup")
async def delete(id: str, control: ControlDep, change: RecordChangeDep) -> Backup:  # noqa: A002
    """A backup that is being made is cancelled. The request is refused while an instance is being restored from the
    backup."""
    return await BACKUPS.change(control, change, id, control.backups.delete)


async def _page(control: Control, query: InstanceBackupQuery, instance: str | None) -> BackupPage:
    filters = {"instance": instance, "states": query.state or None, "descending": True}
    items, following = await BACKUPS.page(control, query, "backups", **filters)
    return BackupPage(items=items, next=following)
