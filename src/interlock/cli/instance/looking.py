"""``interlock instance list``, ``show``, ``events``, ``logs`` and ``facts``: what there is, and how it is doing."""

import json
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.facts import json_option, listed, moment, shown
from interlock.cli.instance.telling import INSTANCES, as_table, as_text, size
from interlock.cli.record.kind import Facts, time_of
from interlock.cli.record.pages import PAGE, pages
from interlock.cli.record.pairs import pair
from interlock.cli.record.paths import path_of
from interlock.cli.server.options import server_for, server_options
from interlock.cli.table import room
from interlock.errors import ServerRefused, ServerUnreachable

if TYPE_CHECKING:
    from interlock.cli.server.asking import Server

_SORTS = ["name", "-name", "created", "-created", "state", "-state", "health", "-health"]


@click.command("list")
@click.argument("part", metavar="[PART]", required=False)
@click.option("--state", "states", metavar="STATE", multiple=True, help="Only those; repeatable.")
@click.option(
    "--tag", "tags", type=pair, multiple=True, metavar="NAME=VALUE", help="Only those with this tag; repeatable."
)
@click.option("--deleted", is_flag=True, help="Also those that are deleted.")
@click.option("--sort", type=click.Choice(_SORTS), default="name", show_default=True, help="With - downwards.")
@click.option("--limit", type=click.IntRange(1), help="Not more than so many.")
@json_option
@server_options
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
    """Show the instances that have PART in their names; without it, all."""
    query = {
        "name": part,
        "state": states or None,
        "tag": [f"{name}={value}" for name, value in tags] or None,
        "deleted": "true" if deleted else None,
        "sort": sort,
        "limit": min(limit or PAGE, PAGE),
    }
    found = list(islice(pages(server_for(flags).get, "/instances", query), limit))
    if as_json:
        click.echo(json.dumps(found))
    else:
        click.echo(as_table(found, datetime.now(UTC), room()) if found else "There is no such instance.")


@click.command()
@click.argument("name")
@json_option
@server_options
def show(name: str, as_json: bool, **flags: Any) -> None:
    """Say how the instance NAME is, where it listens and what it is like."""
    found = server_for(flags).get(path_of(INSTANCES.path, name))
    click.echo(json.dumps(found) if as_json else as_text(found))


@click.command()
@click.argument("name")
@click.option("--limit", type=click.IntRange(1, PAGE), default=50, show_default=True, help="The newest so many.")
@json_option
@server_options
def events(name: str, limit: int, as_json: bool, **flags: Any) -> None:
    """Show what happened to the instance NAME, the oldest first."""
    newest = server_for(flags).get(path_of(INSTANCES.path, name, "events"), limit=limit)["items"]
    found = sorted(newest, key=lambda one: time_of(one["recorded_at"]))
    if as_json:
        click.echo(json.dumps(found))
    else:
        click.echo("\n".join(f"{moment(time_of(one['recorded_at']))}  {INSTANCES.event(one)}" for one in found))


@click.command()
@click.argument("name")
@click.option("-n", "--lines", type=click.IntRange(0, 10_000), default=100, show_default=True, help="The last so many.")
@click.option("-f", "--follow", is_flag=True, help="And those that come, until interrupted.")
@json_option
@server_options
def logs(name: str, lines: int, follow: bool, as_json: bool, **flags: Any) -> None:
    """Show what the PostgreSQL of the instance NAME has logged. With --json, an object for each line."""
    server = server_for(flags)
    for line in server.lines(path_of(INSTANCES.path, name, "logs"), lines=lines, follow="true" if follow else None):
        click.echo(json.dumps({"line": line}) if as_json else shown(line.expandtabs()))
    if follow and _is_there(server, name):
        raise ServerUnreachable(
            "The log came to an end, and its instance is still there: the control plane was stopped, or the server "
            "that wrote it; follow it again."
        )


@click.command()
@click.argument("name")
@json_option
@server_options
def facts(name: str, as_json: bool, **flags: Any) -> None:
    """Ask the PostgreSQL of the instance NAME itself: version, size, connections."""
    found = server_for(flags).get(path_of(INSTANCES.path, name, "facts"))
    click.echo(json.dumps(found) if as_json else _facts(name, found))


def _is_there(server: "Server", name: str) -> bool:
    try:
        return bool(server.get(path_of(INSTANCES.path, name))["deleted_at"] is None)
    except ServerRefused as error:
        if error.code != "instance_unknown":
            raise
        return False


def _facts(name: str, found: Facts) -> str:
    told = {
        "version": found["version"],
        "size": size(found["size_bytes"]),
        "connections": f"{found['connections']} of {found['max_connections']}",
        "running since": moment(time_of(found["started_at"])),
    }
    return listed(name, told)
