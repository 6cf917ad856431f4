"""Several instances in one request: each has a transaction and a result of its own."""

from collections.abc import Awaitable, Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from interlock.errors import InterlockError
from interlock.instances import records
from interlock.server.api.change import Requested
from interlock.server.api.dependencies import Running
from interlock.server.api.idempotency import SOME_REFUSED
from interlock.server.api.instance_models import Instance, NewInstance
from interlock.server.api.instances import created, deleted
from interlock.server.api.record_models import Asked, Text
from interlock.server.problems import problem_of

router = APIRouter(prefix="/instances", tags=["instances"])


class NewInstances(Asked):
    model_config = ConfigDict(json_schema_extra={"examples": [{"instances": [{"name": "shop"}, {"name": "orders"}]}]})

    instances: Annotated[list[NewInstance], Field(min_length=1, max_length=50)]


class OldInstances(Asked):
    model_config = ConfigDict(json_schema_extra={"examples": [{"instances": ["shop", "orders"]}]})

    instances: Annotated[list[Text], Field(min_length=1, max_length=50, description="Ids or names.")]


class Outcome(BaseModel):
    """What a request for this one alone would have been answered with."""

    name: str = Field(description="As it was given.")
    status: int
    instance: Instance | None = None
    problem: dict[str, Any] | None = Field(default=None, description="RFC 9457.")


class Outcomes(BaseModel):
    items: list[Outcome]


_SOME_REFUSED: dict[int | str, dict[str, Any]] = {
    SOME_REFUSED: {"model": Outcomes, "description": "Some were refused. Under an Idempotency-Key, ask for all again."}
}


@router.post(
    "/bulk-create", summary="Create several instances", response_model_exclude_unset=True, responses=_SOME_REFUSED
)
async def bulk_create(
    wanted: NewInstances, control: Running, asked: Requested, request: Request, response: Response
) -> Outcomes:
    """In the order in which they are given; one that is refused keeps none of the others up."""
    by, each = asked.actor, enumerate(wanted.instances)
    work = ((one.name, created(control, request, by, one, str(place))) for place, one in each)
    return await _outcomes(response, work)


@router.post(
    "/bulk-delete", summary="Delete several instances", response_model_exclude_unset=True, responses=_SOME_REFUSED
)
async def bulk_delete(wanted: OldInstances, control: Running, asked: Requested, response: Response) -> Outcomes:
    return await _outcomes(response, ((one, deleted(control, one, asked.actor)) for one in wanted.instances))


async def _outcomes(response: Response, asked: Iterable[tuple[str, Awaitable[records.InstanceRecord]]]) -> Outcomes:
    items = [await _outcome(name, work) for name, work in asked]
    response.status_code = SOME_REFUSED if any(item.problem for item in items) else 200
    return Outcomes(items=items)


async def _outcome(name: str, work: Awaitable[records.InstanceRecord]) -> Outcome:
    try:
        return Outcome(name=name, status=202, instance=Instance.of(await work))
    except InterlockError as error:
        described = problem_of(error)
        return Outcome(name=name, status=described["status"], problem=described)
