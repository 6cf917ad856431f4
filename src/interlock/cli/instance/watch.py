"""``interlock instance watch``: shows changes of instances as they happen, until the user interrupts it."""

import json
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.instance.presentation import INSTANCES, name_of, status
from interlock.cli.output import json_option, time_text
from interlock.cli.record.api import path_of
from interlock.cli.record.deadline import Deadline, OutageTolerantReader
from interlock.cli.record.kind import Facts, error_text, time_of
from interlock.cli.server.options import server_for, server_options

if TYPE_CHECKING:
    from interlock.cli.server.client import ControlPlane

_INTERVAL = 1.0


@click.command()
@click.argument("name", required=False)
@json_option
@server_options
def watch(name: str | None, as_json: bool, **flags: Any) -> None:
    """Show changes as they happen.

    With NAME, it shows the events of that instance until the instance is deleted; without NAME, the changes of all
    instances until you interrupt it. With --json, each change is an object.
    """
    server = server_for(flags)
    changes = _events(server, name) if name else _changes(server)
    for at, instance, change in changes:
        facts = {"at": at.isoformat(), "id": instance["id"], "name": instance["name"]}
        if as_json:
            click.echo(json.dumps(facts | dict(change)))
        else:
            click.echo(f"{time_text(at)}  {name_of(instance)}: {_text(change)}")


Change = tuple[datetime, Facts, Facts]
"""The time, the instance, and the event or the new state."""


def _events(server: "ControlPlane", name: str) -> Iterator[Change]:
    from interlock.cli.record.progress import NewEvents

    reader = OutageTolerantReader(server, Deadline(None))
    instance = server.get(path_of(INSTANCES.path, name))
    events = NewEvents(reader, INSTANCES, instance)
    if not instance["working"]:
        instance = reader.get(path_of(INSTANCES.path, instance["id"]))  # again, because events up to now are not shown
    yield datetime.now(UTC), instance, _state(instance)
    while True:
        for one in events.read():
            yield time_of(one["recorded_at"]), instance, _event(one)
        if instance["deleted_at"]:
            return
        time.sleep(_INTERVAL)
        instance = reader.get(path_of(INSTANCES.path, instance["id"]))


def _changes(server: "ControlPlane") -> Iterator[Change]:
    from interlock.cli.record.api import pages

    reader = OutageTolerantReader(server, Deadline(None))
    before: Mapping[str, Facts] = {}
    while True:
        listed = {one["id"]: one for one in pages(reader.get, "/instances", {"limit": 200})}
        gone = {key: reader.get(path_of(INSTANCES.path, key)) for key in before.keys() - listed.keys()}
        for instance in changed(before, listed | gone):
            yield datetime.now(UTC), instance, _state(instance)
        before = listed
        time.sleep(_INTERVAL)


def changed(before: Mapping[str, Facts], now: Mapping[str, Facts]) -> list[Facts]:
    """Returns the instances that are new, or whose state has changed."""
    return [one for key, one in now.items() if key not in before or _state(before[key]) != _state(one)]


def _state(instance: Facts) -> Facts:
    return {name: instance[name] for name in ("state", "health", "working", "error")}


def _event(one: Facts) -> Facts:
    return {"event": one["kind"], "detail": one.get("detail"), "actor": one.get("actor")}


def _text(change: Facts) -> str:
    if "event" in change:
        return INSTANCES.event_text({"kind": change["event"], "detail": change["detail"], "actor": change["actor"]})
    why = error_text(change)
    return status(change) + (f": {why}" if why else "")
