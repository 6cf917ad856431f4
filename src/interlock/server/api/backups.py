"""Backups: asked for, listed, shown, verified, deleted."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from interlock.errors import BackupUnknown
from interlock.instances.backups import records
from interlock.instances.backups.model import State
from interlock.server.api import cursor
from interlock.server.api.backup_models import Backup, BackupPage, NewBackup
from interlock.server.api.instance_models import Asked, Text
from interlock.server.api.repeating import repeatable_id
from interlock.server.api.running import Running, found
from interlock.server.control import Control

router = APIRouter(tags=["backups"])

_USUAL = NewBackup(format="file")
"""Of a request that says nothing of it."""


class OfOne(Asked):
    state: list[State] = Field([], description="One of these.")
    deleted: bool = Field(False, description="Also those that are deleted.")
    limit: int = Field(50, ge=1, le=200)
    after: str | None = Field(None, max_length=2000, description="The `next` of the page before.")

    @property
    def place(self) -> str | None:
        return None if self.after is None else cursor.unpacked(self.after, "backups", more=1)[0]


class OfAny(OfOne):
    instance: Text | None = Field(None, description="Of this instance, by id or name, also of one that is gone.")


@router.post("/instances/{id}/backups", status_code=202, summary="Back up an instance")
async def make(
    id: str,  # noqa: A002
    control: Running,
    request: Request,
    response: Response,
    wanted: NewBackup = _USUAL,
) -> Backup:
    """It is answered at once; the work goes on until the backup is `made` or `failed`."""
    repeated = repeatable_id(request, id)

    async def work(connection: Any) -> records.Backup:
        instance = (await found(control, connection, id)).id
        return await control.backups.make(connection, instance, wanted.format, id=repeated)

    record = await control.carry_out(work)
    response.headers["Location"] = f"/api/v1/backups/{record.id}"
    return Backup.of(record)


@router.get("/instances/{id}/backups", summary="List the backups of an instance")
async def list_of_one(id: str, wanted: Annotated[OfOne, Query()], control: Running) -> BackupPage:  # noqa: A002
    instance = await control.pool.transact(lambda connection: found(control, connection, id))
    return await _page(control, wanted, instance.id)


@router.get("/backups", summary="List backups")
async def list_(wanted: Annotated[OfAny, Query()], control: Running) -> BackupPage:
    """The newest first."""
    return await _page(control, wanted, wanted.instance)


@router.get("/backups/{id}", summary="Show a backup")
async def show(id: str, control: Running) -> Backup:  # noqa: A002
    """By its id, or by the first eight characters of that, or more."""
    return Backup.of(await control.pool.transact(lambda connection: found_backup(control, connection, id)))


@router.post("/backups/{id}/verify", status_code=202, summary="Verify a backup")
async def verify(id: str, control: Running) -> Backup:  # noqa: A002
    """Its files are compared with what was written, and read to their end. `verified_at` says when."""

    async def work(connection: Any) -> records.Backup:
        return await control.backups.verify(connection, (await found_backup(control, connection, id)).id)

    return Backup.of(await control.carry_out(work))


@router.delete("/backups/{id}", status_code=202, summary="Delete a backup")
async def delete(id: str, control: Running) -> Backup:  # noqa: A002
    """One that is being made is cancelled. One that is being restored from is refused."""

    async def work(connection: Any) -> records.Backup:
        return await control.backups.delete(connection, (await found_backup(control, connection, id)).id)

    return Backup.of(await control.carry_out(work))


async def found_backup(control: Control, connection: Any, id: str) -> records.Backup:  # noqa: A002
    if not id.isprintable():  # which the database would refuse to look for
        raise BackupUnknown(f"There is no backup {id!r}: list those that there are.")
    return await control.backups.records.find(connection, id.lower())


async def _page(control: Control, wanted: OfOne, instance: str | None) -> BackupPage:
    async def read(connection: Any) -> records.BackupPage:
        return await control.backups.records.page(
            connection,
            instance=instance,
            states=wanted.state or None,
            deleted=wanted.deleted,
            after=wanted.place,
            limit=wanted.limit,
        )

    page = await control.pool.transact(read)
    following = page.following and cursor.packed("backups", page.following)
    return BackupPage(items=[Backup.of(one) for one in page.backups], next=following)
