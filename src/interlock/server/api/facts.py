"""The route of facts that a running instance reports: version, size, connections."""

from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from interlock.instances.facts import facts
from interlock.server.api.dependencies import ControlDep
from interlock.server.api.instance_models import INSTANCES

router = APIRouter(prefix="/instances/{id}", tags=["instances"])


class Facts(BaseModel):
    """`connections` counts client connections, except the connection that reads these facts."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "version": "17.5",
                    "size_bytes": 7910563,
                    "connections": 4,
                    "max_connections": 50,
                    "started_at": "2026-01-31T12:00:03Z",
                }
            ]
        }
    )

    version: str
    size_bytes: int
    connections: int
    max_connections: int
    started_at: datetime


@router.get("/facts", summary="Show what a running instance reports")
async def tell(id: str, control: ControlDep) -> Facts:  # noqa: A002
    instance = await INSTANCES.read(control, id)
    driver = control.context.driver(instance.driver)
    return Facts(**vars(await facts(driver, instance, control.context.timing.check_timeout)))
