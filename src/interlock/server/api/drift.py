"""The routes of drift: differences between the records and what the drivers have."""

from datetime import datetime
from typing import Annotated, Any, Self

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, ConfigDict, Field

from interlock.instances.upkeep import findings
from interlock.instances.upkeep.comparison import Kind
from interlock.server.api.dependencies import ChangeDep, ControlDep
from interlock.server.api.record_models import RequestModel
from interlock.server.control import Control

router = APIRouter(prefix="/drift", tags=["drift"])

_WAIT_FOR_OTHERS = 40.0
"""Seconds to wait for a check by another replica to end; this replica's own check comes after that."""


class Finding(BaseModel):
    """One difference. `instance` is the instance's id. For an orphan, no record with this id needs to exist."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": 7,
                    "kind": "wrong_state",
                    "driver": "local",
                    "instance": "0b8e5f0c-7f4e-4a52-9d3e-2f8f3a6f1c55",
                    "name": "orders",
                    "detail": "The record says running, but the instance is stopped.",
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
    closed_at: datetime | None = Field(description="The time of the check that no longer found the difference.")
    repair: str | None = Field(description="The orchestration that was last started to repair the difference.")

    @classmethod
    def of(cls, finding: findings.Finding) -> Self:
        return cls(**vars(finding))


class Look(BaseModel):
    """The last check of a driver. If `trouble` is not empty, it is the reason why the check is incomplete."""

    driver: str
    looked_at: datetime
    trouble: str


class Drift(BaseModel):
    items: list[Finding]
    looks: list[Look]


class DriftQuery(RequestModel):
    closed: bool = Field(False, description="List closed findings too.")
    limit: int = Field(50, ge=1, le=200)


@router.get("", summary="List drift")
async def drift(query: Annotated[DriftQuery, Query()], control: ControlDep) -> Drift:
    """The newest findings come first."""
    return await _drift(control, query)


@router.post("/look", summary="Check for drift now")
async def look(control: ControlDep) -> Drift:
    """The answer comes when all drivers have been checked. A scheduled check runs every `drift_interval` seconds."""
    await control.upkeep.check_drift_now(_WAIT_FOR_OTHERS)
    return await _drift(control, DriftQuery(closed=False, limit=200))


@router.post("/{finding}/repair", status_code=202, summary="Repair drift")
async def repair(finding: Annotated[int, Path(ge=1, le=2**63 - 1)], control: ControlDep, change: ChangeDep) -> Finding:
    """Starts an orchestration that repairs the difference: an orphan is removed; an instance that vanished is marked
    as failed; an instance in the wrong state is started or stopped, as its record says; a DNS name is published again.
    The next check closes the finding."""

    async def work(connection: Any) -> findings.Finding:
        return await control.upkeep.repairs.repair(connection, finding, by=change.actor)

    record = await control.pool.transact(work)
    if record.repair:
        await control.begin(record.repair)
    return Finding.of(record)


async def _drift(control: Control, query: DriftQuery) -> Drift:
    known = control.upkeep.repairs.findings

    async def read(connection: Any) -> Drift:
        items = await known.page(connection, closed=query.closed, limit=query.limit)
        looks = await known.last_checks(connection)
        return Drift(items=[Finding.of(one) for one in items], looks=[Look(**vars(one)) for one in looks])

    return await control.pool.transact(read)
