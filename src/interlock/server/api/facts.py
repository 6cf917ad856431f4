"""What a running instance says of itself."""

from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from interlock.instances.facts import facts
from interlock.server.api.dependencies import Running
from interlock.server.api.instance_models import INSTANCES

router = APIRouter(prefix="/instances/{id}", tags=["instances"])


class Facts(BaseModel):
    """`connections` are those of clients, without the one that asked."""

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


@router.get("/facts", summary="Ask a running instance itself")
async def tell(id: str, control: Running) -> Facts:  # noqa: A002
    instance = await INSTANCES.read(control, id)
    driver = control.context.driver(instance.driver)
    return Facts(**vars(await facts(driver, instance, control.context.timing.check_timeout)))
