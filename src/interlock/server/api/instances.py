"""The routes of instances: create, list, show, delete."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from interlock.errors import BadSpec
from interlock.instances import records
from interlock.instances.model import State
from interlock.instances.records import Sort
from interlock.server.api.dependencies import ChangeDep, ControlDep, RecordChangeDep
from interlock.server.api.idempotency import repeatable_id
from interlock.server.api.instance_models import INSTANCES, Instance, InstancePage, NewInstance
from interlock.server.api.pagination import ListQuery
from interlock.server.api.record_models import Text
from interlock.server.control import Control

router = APIRouter(prefix="/instances", tags=["instances"])

Order = Literal["name", "-name", "created", "-created", "state", "-state", "health", "-health"]


class InstanceQuery(ListQuery):
    """The filters and the order of a list of instances."""

    state: list[State] = Field([], description="Only instances in one of these states.")
    name: Text | None = Field(None, description="Only instances whose names contain this text.")
    tag: list[Text] = Field(
        [],
        description="Only instances with this tag, such as `team=shop`; with several tags, only those that have all.",
    )
    sort: Order = "name"

    @property
    def key(self) -> Sort:
        return self.sort.removeprefix("-")  # type: ignore[return-value]

    @property
    def tags(self) -> dict[str, str]:
        if wrong := [tag for tag in self.tag if "=" not in tag]:
            raise BadSpec(f"The tag {wrong[0]!r} has no value: write the tag like team=shop.")
        pairs = {(name, value) for name, _, value in (tag.partition("=") for tag in self.tag)}
        if len(tags := dict(pairs)) < len(pairs):
            raise BadSpec("No instance has two values of one tag: send a separate request for each value.")
        return tags


@router.post("", status_code=202, summary="Create an instance")
async def create(
    body: NewInstance, control: ControlDep, change: ChangeDep, request: Request, response: Response
) -> Instance:
    """The answer comes as soon as the names are claimed. The work goes on until the instance is `running` or
    `failed`."""
    record = change.with_etag(await create_instance(control, request, change.actor, body))
    response.headers["Location"] = f"/api/v1/instances/{record.id}"
    return Instance.of(record)


@router.get("", summary="List instances")
async def list_(query: Annotated[InstanceQuery, Query()], control: ControlDep) -> InstancePage:
    items, following = await INSTANCES.page(
        control,
        query,
        query.sort,
        states=query.state or None,
        name_part=query.name,
        tags=query.tags,
        sort=query.key,
        descending=query.sort.startswith("-"),
    )
    return InstancePage(items=items, next=following)


@router.get("/{id}", summary="Show an instance")
async def show(id: str, control: ControlDep, response: Response) -> Instance:  # noqa: A002
    """`id` is the instance's id, or the name of an instance that is not deleted."""
    return await INSTANCES.show(control, id, response)


@router.delete("/{id}", status_code=202, summary="Delete an instance")
async def delete(id: str, control: ControlDep, change: RecordChangeDep) -> Instance:  # noqa: A002
    """An orchestration that works on the instance is cancelled. The instance's names are released once the driver has
    confirmed that nothing of the instance is left."""
    return await INSTANCES.change(control, change, id, control.instances.delete)


async def create_instance(
    control: Control, request: Request, actor: str, new: NewInstance, *which: str
) -> records.InstanceRecord:
    """`which` distinguishes the instances that one request creates."""
    driver = new.driver or control.settings.default_driver
    if driver not in control.context.drivers:
        raise BadSpec(f"This server has no driver {driver!r}: use one of {', '.join(control.context.drivers)}.")
    options = new.model_dump(exclude={"name", "driver"})
    id = repeatable_id(request, new.name, *which)  # noqa: A001

    async def work(connection: Any) -> records.InstanceRecord:
        return await control.instances.create(connection, new.name, driver=driver, id=id, by=actor, **options)

    return await control.carry_out(work)


async def delete_instance(control: Control, id: str, actor: str) -> records.InstanceRecord:  # noqa: A002
    async def work(connection: Any) -> records.InstanceRecord:
        return await control.instances.delete(connection, (await INSTANCES.found(control, connection, id)).id, by=actor)

    return await control.carry_out(work)
