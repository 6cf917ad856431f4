"""Instances: asked for, listed, shown, deleted."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from interlock.errors import BadSpec
from interlock.instances import records
from interlock.instances.model import State
from interlock.instances.records import Sort
from interlock.server.api.change import Changing, Requested
from interlock.server.api.dependencies import Running
from interlock.server.api.idempotency import repeatable_id
from interlock.server.api.instance_models import INSTANCES, Instance, InstancePage, NewInstance
from interlock.server.api.record_models import Listed, Text
from interlock.server.control import Control

router = APIRouter(prefix="/instances", tags=["instances"])

Order = Literal["name", "-name", "created", "-created", "state", "-state", "health", "-health"]


class InstanceQuery(Listed):
    """Which instances, in which order."""

    state: list[State] = Field([], description="One of these.")
    name: Text | None = Field(None, description="With this in their names.")
    tag: list[Text] = Field([], description="With this tag: `team=shop`. Several have to be there all.")
    sort: Order = "name"

    @property
    def key(self) -> Sort:
        return self.sort.removeprefix("-")  # type: ignore[return-value]

    @property
    def tags(self) -> dict[str, str]:
        if wrong := [tag for tag in self.tag if "=" not in tag]:
            raise BadSpec(f"The tag {wrong[0]!r} has no value: write it like team=shop.")
        pairs = {(name, value) for name, _, value in (tag.partition("=") for tag in self.tag)}
        if len(tags := dict(pairs)) < len(pairs):
            raise BadSpec("No instance has two values of one tag: ask for each of them alone.")
        return tags


@router.post("", status_code=202, summary="Create an instance")
async def create(
    wanted: NewInstance, control: Running, asked: Requested, request: Request, response: Response
) -> Instance:
    """It is answered at once: names are claimed, and the work goes on until the instance is `running` or `failed`."""
    record = asked.told(await created(control, request, asked.actor, wanted))
    response.headers["Location"] = f"/api/v1/instances/{record.id}"
    return Instance.of(record)


@router.get("", summary="List instances")
async def list_(wanted: Annotated[InstanceQuery, Query()], control: Running) -> InstancePage:
    items, following = await INSTANCES.page(
        control,
        wanted,
        wanted.sort,
        states=wanted.state or None,
        name_part=wanted.name,
        tags=wanted.tags,
        sort=wanted.key,
        descending=wanted.sort.startswith("-"),
    )
    return InstancePage(items=items, next=following)


@router.get("/{id}", summary="Show an instance")
async def show(id: str, control: Running, response: Response) -> Instance:  # noqa: A002
    """By its id, or by its name if it is not deleted."""
    return await INSTANCES.show(control, id, response)


@router.delete("/{id}", status_code=202, summary="Delete an instance")
async def delete(id: str, control: Running, change: Changing) -> Instance:  # noqa: A002
    """Whatever works on it is cancelled. Its names are free when everything of it was seen to be gone."""
    return await INSTANCES.change(control, change, id, control.instances.delete)


async def created(
    control: Control, request: Request, actor: str, wanted: NewInstance, *which: str
) -> records.InstanceRecord:
    """`which`: of several in one request."""
    driver = wanted.driver or control.settings.default_driver
    if driver not in control.context.drivers:
        raise BadSpec(f"There is no driver {driver!r} here: use one of {', '.join(control.context.drivers)}.")
    wishes = wanted.model_dump(exclude={"name", "driver"})
    id = repeatable_id(request, wanted.name, *which)  # noqa: A001

    async def work(connection: Any) -> records.InstanceRecord:
        return await control.instances.create(connection, wanted.name, driver=driver, id=id, by=actor, **wishes)

    return await control.carry_out(work)


async def deleted(control: Control, id: str, actor: str) -> records.InstanceRecord:  # noqa: A002
    async def work(connection: Any) -> records.InstanceRecord:
        return await control.instances.delete(connection, (await INSTANCES.found(control, connection, id)).id, by=actor)

    return await control.carry_out(work)
