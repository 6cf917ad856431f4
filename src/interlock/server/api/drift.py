"""Drift: where what the drivers have is not what the records say."""

from datetime import datetime
from typing import Annotated, Any, Self

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from interlock.instances.upkeep import findings
from interlock.instances.upkeep.comparison import Kind
from interlock.server.api.change import Requested
from interlock.server.api.dependencies import Running
from interlock.server.api.record_models import Asked
from interlock.server.control import Control

router = APIRouter(prefix="/drift", tags=["drift"])

_PATIENCE = 40.0
"""Seconds for a look of another replica's to end; and then there is this one's."""


class DriftFinding(BaseModel):
    """One thing that has drifted; `instance` is an id, of an orphan perhaps one that no record has."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": 7,
                    "kind": "wrong_state",
                    "driver": "local",
                    "instance": "0b8e5f0c-7f4e-4a52-9d3e-2f8f3a6f1c55",
                    "name": "orders",
                    "detail": "Its record says running, and it is stopped.",
                    "found_at": "2026-01-31T12:00:00Z",
                    "closed_at": None,
                    "repair": None,
                }
            ]
        }
    )

    id: int
    kind: Kind
    driver: str
    instance: str
    name: str
    detail: str
    found_at: datetime
    closed_at: datetime | None = Field(description="When it was seen not to be so any more.")
    repair: str | None = Field(description="The orchestration that was last asked to put it right.")

    @classmethod
    def of(cls, finding: findings.DriftFinding) -> Self:
        return cls(**vars(finding))


class Look(BaseModel):
    """When a driver was last looked at. With `trouble` that told nothing, or not everything, and why."""

    driver: str
    looked_at: datetime
    trouble: str


class Drift(BaseModel):
    items: list[DriftFinding]
    looks: list[Look]


class DriftQuery(Asked):
    closed: bool = Field(False, description="Also what is over.")
    limit: int = Field(50, ge=1, le=200)


@router.get("", summary="What has drifted")
async def drift(wanted: Annotated[DriftQuery, Query()], control: Running) -> Drift:
    """The newest first."""
    return await _found(control, wanted)


@router.post("/look", summary="Look for drift now")
async def look(control: Running) -> Drift:
    """Answered when everything has been looked at. By itself that is done every `drift_interval` seconds."""
    await control.upkeep.check_drift_now(_PATIENCE)
    return await _found(control, DriftQuery(closed=False, limit=200))


@router.post("/{finding}/repair", status_code=202, summary="Put right what has drifted")
async def repair(finding: Annotated[int, Path(ge=1, le=2**63 - 1)], control: Running, asked: Requested) -> DriftFinding:
    """By an orchestration: an orphan is removed; what vanished is marked as failed; what is down, or up, is brought
    to what its record says; a DNS name is published again. The next look closes the finding."""

    async def work(connection: Any) -> findings.DriftFinding:
        return await control.upkeep.repairs.repair(connection, finding, by=asked.actor)

    begun = await control.pool.transact(work)
    if begun.repair:
        await control.begin(begun.repair)
    return DriftFinding.of(begun)


async def _found(control: Control, wanted: DriftQuery) -> Drift:
    known = control.upkeep.repairs.findings

    async def read(connection: Any) -> Drift:
        items = await known.page(connection, closed=wanted.closed, limit=wanted.limit)
        looks = await known.last_checks(connection)
        return Drift(items=[DriftFinding.of(one) for one in items], looks=[Look(**vars(one)) for one in looks])

    return await control.pool.transact(read)
