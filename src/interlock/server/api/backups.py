"""Backups: asked for, listed, shown, verified, deleted."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from interlock.instances.backups import records
from interlock.instances.backups.model import State
from interlock.server.api.backup_models import BACKUPS, Backup, BackupPage, NewBackup
from interlock.server.api.change import Changing, Requested
from interlock.server.api.dependencies import Running
from interlock.server.api.idempotency import repeatable_id
from interlock.server.api.instance_models import INSTANCES
from interlock.server.api.record_models import Listed, Text
from interlock.server.control import Control

router = APIRouter(tags=["backups"])

_USUAL = NewBackup(format="file")
"""Of a request that says nothing of it."""


class OfOne(Listed):
    state: list[State] = Field([], description="One of these.")


class OfAny(OfOne):
    instance: Text | None = Field(None, description="Of this instance, by id or name, also of one that is gone.")


@router.post("/instances/{id}/backups", status_code=202, summary="Back up an instance")
async def make(
    id: str,  # noqa: A002
    control: Running,
    asked: Requested,
    request: Request,
    response: Response,
    wanted: NewBackup = _USUAL,
) -> Backup:
    """It is answered at once; the work goes on until the backup is `made` or `failed`."""
    repeated = repeatable_id(request, id)

    async def work(connection: Any) -> records.BackupRecord:
        instance = (await INSTANCES.found(control, connection, id)).id
        return await control.backups.make(connection, instance, wanted.format, id=repeated, by=asked.actor)

    record = asked.told(await control.carry_out(work))
    response.headers["Location"] = f"/api/v1/backups/{record.id}"
    return Backup.of(record)


@router.get("/instances/{id}/backups", summary="List the backups of an instance")
async def list_of_one(id: str, wanted: Annotated[OfOne, Query()], control: Running) -> BackupPage:  # noqa: A002
    return await _page(control, wanted, (await INSTANCES.read(control, id)).id)


@router.get("/backups", summary="List backups")
async def list_(wanted: Annotated[OfAny, Query()], control: Running) -> BackupPage:
    """The newest first."""
    return await _page(control, wanted, wanted.instance)


@router.get("/backups/{id}", summary="Show a backup")
async def show(id: str, control: Running, response: Response) -> Backup:  # noqa: A002
    """By its id, or by the first eight characters of that, or more."""
    return await BACKUPS.show(control, id, response)


@router.post("/backups/{id}/verify", status_code=202, summary="Verify a backup")
async def verify(id: str, control: Running, change: Changing) -> Backup:  # noqa: A002
    """Its files are compared with what was written, and read to their end. `verified_at` says when."""
    return await BACKUPS.change(control, change, id, control.backups.verify)


@router.delete("/backups/{id}", status_code=202, summary="Delete a backup")
async def delete(id: str, control: Running, change: Changing) -> Backup:  # noqa: A002
    """One that is being made is cancelled. One that is being restored from is refused."""
    return await BACKUPS.change(control, change, id, control.backups.delete)


async def _page(control: Control, wanted: OfOne, instance: str | None) -> BackupPage:
    how = {"instance": instance, "states": wanted.state or None, "descending": True}
    items, following = await BACKUPS.page(control, wanted, "backups", **how)
    return BackupPage(items=items, next=following)
