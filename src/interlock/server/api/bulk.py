"""Several instances in one request: each has its own transaction and its own result."""

from collections.abc import Awaitable, Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from interlock.errors import InterlockError
from interlock.instances import records
from interlock.server.api.dependencies import ChangeDep, ControlDep
from interlock.server.api.idempotency import SOME_REFUSED
from interlock.server.api.instance_models import Instance, NewInstance
from interlock.server.api.instances import create_instance, delete_instance
from interlock.server.api.record_models import RequestModel, Text
from interlock.server.problems import problem_of

router = APIRouter(prefix="/instances", tags=["instances"])


class NewInstances(RequestModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"instances": [{"name": "shop"}, {"name": "orders"}]}]})

    instances: Annotated[list[NewInstance], Field(min_length=1, max_length=50)]


class OldInstances(RequestModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"instances": ["shop", "orders"]}]})

    instances: Annotated[list[Text], Field(min_length=1, max_length=50, description="Ids or names.")]


class Outcome(BaseModel):
    """The answer that a request for this instance alone would have had."""

    name: str = Field(description="The name or id as the request gave it.")
    status: int
    instance: Instance | None = None
    problem: dict[str, Any] | None = Field(default=None, description="The problem (RFC 9457) of a refused instance.")


class Outcomes(BaseModel):
    items: list[Outcome]


_SOME_REFUSED: dict[int | str, dict[str, Any]] = {
    SOME_REFUSED: {
        "model": Outcomes,
        "description": "Some instances were refused. If the request had an Idempotency-Key, repeat the whole request.",
    }
}


@router.post(
    "/bulk-create", summary="Create several instances", response_model_exclude_unset=True, responses=_SOME_REFUSED
)
async def bulk_create(
    body: NewInstances, control: ControlDep, change: ChangeDep, request: Request, response: Response
) -> Outcomes:
    """The instances are created in the given order. If an instance is refused, the others are created all the same."""
    by, each = change.actor, enumerate(body.instances)
    work = ((one.name, create_instance(control, request, by, one, str(place))) for place, one in each)
    return await _outcomes(response, work)


@router.post(
    "/bulk-delete", summary="Delete several instances", response_model_exclude_unset=True, responses=_SOME_REFUSED
)
async def bulk_delete(body: OldInstances, control: ControlDep, change: ChangeDep, response: Response) -> Outcomes:
    return await _outcomes(response, ((one, delete_instance(control, one, change.actor)) for one in body.instances))


async def _outcomes(response: Response, changes: Iterable[tuple[str, Awaitable[records.InstanceRecord]]]) -> Outcomes:
    items = [await _outcome(name, work) for name, work in changes]
    response.status_code = SOME_REFUSED if any(item.problem for item in items) else 200
    return Outcomes(items=items)


async def _outcome(name: str, work: Awaitable[records.InstanceRecord]) -> Outcome:
    try:
        return Outcome(name=name, status=202, instance=Instance.of(await work))
    except InterlockError as error:
        described = problem_of(error)
        return Outcome(name=name, status=described["status"], problem=described)
