"""``interlock instance list``, ``show``, ``events``, ``logs`` and ``facts``."""

import json
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.instance.presentation import INSTANCES, size
from interlock.cli.output import escaped, json_option, time_text, titled_lines
from interlock.cli.record.api import path_of
from interlock.cli.record.commands import events_command, list_options, show_command, show_list
from interlock.cli.record.kind import Facts, time_of
from interlock.cli.record.options import pair
from interlock.cli.server.options import server_for, server_options
from interlock.errors import ServerRefused, ServerUnreachable

if TYPE_CHECKING:
    from interlock.cli.server.client import ControlPlane

_SORTS = ["name", "-name", "created", "-created", "state", "-state", "health", "-health"]


@click.command("list")
@click.argument("part", metavar="[PART]", required=False)
@click.option("--tag", "tags", type=pair, multiple=True, metavar="NAME=VALUE", help="Only with this tag; repeatable.")
@click.option("--sort", type=click.Choice(_SORTS), default="name", show_default=True, help="With -: descending.")
@list_options
def list_(
    part: str | None,
    states: tuple[str, ...],
    tags: tuple[tuple[str, str], ...],
    deleted: bool,
    sort: str,
    limit: int | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """List instances. With PART, only instances whose names contain PART."""
    more = {"name": part, "tag": [f"{name}={value}" for name, value in tags] or None, "sort": sort}
    show_list(INSTANCES, flags, states=states, deleted=deleted, limit=limit, as_json=as_json, **more)


show = show_command(INSTANCES, "Show state, address and properties of the instance NAME.")
events = events_command(INSTANCES, "Show the history of the instance NAME. The oldest event comes first.")


@click.command()
@click.argument("name")
@click.option(
    "-n", "--lines", type=click.IntRange(0, 10_000), default=100, show_default=True, help="The number of last lines."
)
@click.option("-f", "--follow", is_flag=True, help="Then show new lines, until interrupted.")
@json_option
@server_options
def logs(name: str, lines: int, follow: bool, as_json: bool, **flags: Any) -> None:
    """Show the PostgreSQL log of the instance NAME. With --json, each line is an object."""
    server = server_for(flags)
    for line in server.lines(path_of(INSTANCES.path, name, "logs"), lines=lines, follow="true" if follow else None):
        click.echo(json.dumps({"line": line}) if as_json else escaped(line.expandtabs()))
    if follow and _exists(server, name):
        raise ServerUnreachable(
            "The log ended although the instance exists: the control plane or the instance's server was stopped. "
            "Run the command again."
        )


@click.command()
@click.argument("name")
@json_option
@server_options
def facts(name: str, as_json: bool, **flags: Any) -> None:
    """Show version, size and connections of the instance NAME, as its PostgreSQL reports them."""
    found = server_for(flags).get(path_of(INSTANCES.path, name, "facts"))
    click.echo(json.dumps(found) if as_json else _facts(name, found))


def _exists(server: "ControlPlane", name: str) -> bool:
    try:
        return bool(server.get(path_of(INSTANCES.path, name))["deleted_at"] is None)
    except ServerRefused as error:
        if error.code != "instance_unknown":
            raise
        return False


def _facts(name: str, found: Facts) -> str:
    lines = {
        "version": found["version"],
        "size": size(found["size_bytes"]),
        "connections": f"{found['connections']} of {found['max_connections']}",
        "running since": time_text(time_of(found["started_at"])),
    }
    return titled_lines(name, lines)
