"""``interlock instance watch``: what changes, as it does, until interrupted."""

import json
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.instance.presentation import INSTANCES, name_of, standing
from interlock.cli.output import json_option, time_text
from interlock.cli.record.kind import Facts, time_of, trouble
from interlock.cli.record.paths import path_of
from interlock.cli.record.patience import Deadline, OutagePatience
from interlock.cli.server.options import server_for, server_options

if TYPE_CHECKING:
    from interlock.cli.server.client import ControlPlane

_INTERVAL = 1.0


@click.command()
@click.argument("name", required=False)
@json_option
@server_options
def watch(name: str | None, as_json: bool, **flags: Any) -> None:
    """Show what happens to the instance NAME until it is deleted, or every change of any of them.

    Until interrupted. With --json, an object for each change.
    """
    server = server_for(flags)
    seen = _events(server, name) if name else _changes(server)
    for at, instance, said in seen:
        facts = {"at": at.isoformat(), "id": instance["id"], "name": instance["name"]}
        if as_json:
            click.echo(json.dumps(facts | dict(said)))
        else:
            click.echo(f"{time_text(at)}  {name_of(instance)}: {_words(said)}")


Seen = tuple[datetime, Facts, Facts]


def _events(server: "ControlPlane", name: str) -> Iterator[Seen]:
    from interlock.cli.record.history import Happenings

    patience = OutagePatience(server, Deadline(None))
    instance = server.get(path_of(INSTANCES.path, name))
    happenings = Happenings(patience, INSTANCES, instance)
    if not instance["working"]:
        instance = patience.get(path_of(INSTANCES.path, instance["id"]))  # as it is after what is not told any more
    yield datetime.now(UTC), instance, _standing(instance)
    while True:
        for one in happenings.new():
            yield (
                time_of(one["recorded_at"]),
                instance,
                _of_event(one),
            )
        if instance["deleted_at"]:
            return
        time.sleep(_INTERVAL)
        instance = patience.get(path_of(INSTANCES.path, instance["id"]))


def _changes(server: "ControlPlane") -> Iterator[Seen]:
    from interlock.cli.record.pages import pages

    patience = OutagePatience(server, Deadline(None))
    before: Mapping[str, Facts] = {}
    while True:
        listed = {one["id"]: one for one in pages(patience.get, "/instances", {"limit": 200})}
        gone = {key: patience.get(path_of(INSTANCES.path, key)) for key in before.keys() - listed.keys()}
        for instance in changed(before, listed | gone):
            yield datetime.now(UTC), instance, _standing(instance)
        before = listed
        time.sleep(_INTERVAL)


def changed(before: Mapping[str, Facts], now: Mapping[str, Facts]) -> list[Facts]:
    """Those that were not there, or were otherwise."""
    return [one for key, one in now.items() if key not in before or _standing(before[key]) != _standing(one)]


def _standing(instance: Facts) -> Facts:
    return {name: instance[name] for name in ("state", "health", "working", "error")}


def _of_event(one: Facts) -> Facts:
    return {"event": one["kind"], "detail": one.get("detail"), "actor": one.get("actor")}


def _words(said: Facts) -> str:
    if "event" in said:
        return INSTANCES.event({"kind": said["event"], "detail": said["detail"], "actor": said["actor"]})
    why = trouble(said)
    return standing(said) + (f": {why}" if why else "")
