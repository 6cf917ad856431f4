"""The routes of events of instances and backups, and of health checks. Each list begins with the newest."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from interlock.instances import records
from interlock.server.api.backup_models import BACKUPS
from interlock.server.api.dependencies import ControlDep
from interlock.server.api.instance_models import INSTANCES
from interlock.server.api.pagination import EventQuery, LimitQuery
from interlock.server.api.resource import Events

router = APIRouter()


class HealthCheck(BaseModel):
    recorded_at: datetime
    healthy: bool
    milliseconds: float
    detail: str


class Checks(BaseModel):
    items: list[HealthCheck]


@router.get("/instances/{id}/events", tags=["instances"], summary="List the events of an instance")
async def events(id: str, query: Annotated[EventQuery, Query()], control: ControlDep) -> Events:  # noqa: A002
    return await INSTANCES.events(control, id, query)


@router.get("/backups/{id}/events", tags=["backups"], summary="List the events of a backup")
async def backup_events(id: str, query: Annotated[EventQuery, Query()], control: ControlDep) -> Events:  # noqa: A002
    return await BACKUPS.events(control, id, query)


@router.get("/instances/{id}/checks", tags=["instances"], summary="List the health checks of an instance")
async def checks(id: str, query: Annotated[LimitQuery, Query()], control: ControlDep) -> Checks:  # noqa: A002
    async def read(connection: Any) -> list[records.HealthCheckRecord]:
        instance = (await INSTANCES.found(control, connection, id)).id
        return await control.instances.records.checks(connection, instance, query.limit)

    return Checks(items=[HealthCheck(**vars(one)) for one in await control.pool.transact(read)])
