"""The history of an instance or a backup, and the results of health checks: the newest first."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from interlock.instances import records
from interlock.server.api.backup_models import BACKUPS
from interlock.server.api.dependencies import Running
from interlock.server.api.instance_models import INSTANCES
from interlock.server.api.resource import Events, Newest, Since

router = APIRouter()


class HealthCheck(BaseModel):
    recorded_at: datetime
    healthy: bool
    milliseconds: float
    detail: str


class Checks(BaseModel):
    items: list[HealthCheck]


@router.get("/instances/{id}/events", tags=["instances"], summary="What happened to an instance")
async def events(id: str, wanted: Annotated[Since, Query()], control: Running) -> Events:  # noqa: A002
    return await INSTANCES.events(control, id, wanted)


@router.get("/backups/{id}/events", tags=["backups"], summary="What happened to a backup")
async def backup_events(id: str, wanted: Annotated[Since, Query()], control: Running) -> Events:  # noqa: A002
    return await BACKUPS.events(control, id, wanted)


@router.get("/instances/{id}/checks", tags=["instances"], summary="What its health checks found")
async def checks(id: str, wanted: Annotated[Newest, Query()], control: Running) -> Checks:  # noqa: A002
    async def read(connection: Any) -> list[records.HealthCheck]:
        instance = (await INSTANCES.found(control, connection, id)).id
        return await control.instances.records.checks(connection, instance, wanted.limit)

    return Checks(items=[HealthCheck(**vars(one)) for one in await control.pool.transact(read)])
