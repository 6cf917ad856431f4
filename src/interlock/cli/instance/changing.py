"""``interlock instance set`` and ``resize``: what an instance is like, changed."""

from typing import Any

import click

from interlock.cli.facts import json_option
from interlock.cli.instance.telling import INSTANCES, name_of
from interlock.cli.record.conclusion import conclude, wait_options
from interlock.cli.record.pairs import as_mapping, pair
from interlock.cli.record.paths import path_of
from interlock.cli.server.options import server_for, server_options
from interlock.errors import InstanceBusy


@click.command("set")
@click.argument("name")
@click.argument("pairs", metavar="[PARAMETER=VALUE]...", nargs=-1, type=pair)
@click.option("--unset", metavar="PARAMETER", multiple=True, help="Back to PostgreSQL's default; repeatable.")
@wait_options
@json_option
@server_options
def set_(
    name: str,
    pairs: tuple[tuple[str, str], ...],
    unset: tuple[str, ...],
    wait: bool,
    timeout: float | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Set parameters of PostgreSQL's in the instance NAME; the others stay. What needs a restart is restarted."""
    if not pairs and not unset:
        raise click.UsageError("Say what to set, as in work_mem=64MB, or what to --unset.")
    given = {parameter.lower(): value for parameter, value in as_mapping(pairs, "parameter").items()}
    server = server_for(flags)
    found = server.get(path_of(INSTANCES.path, name))
    if found["working"]:  # these parameters may be just what is changed; the server compares the revision once more
        raise InstanceBusy(
            f"{found['orchestration']} works on {name_of(found)}: wait until that has ended.",
            orchestration=found["orchestration"],
        )
    left = {key: value for key, value in found["parameters"].items() if key not in {one.lower() for one in unset}}
    body = {"parameters": left | given}
    asked = server.change("PUT", path_of(INSTANCES.path, found["id"], "parameters"), body, revision=found["revision"])
    conclude(server, INSTANCES, asked, wait=wait, timeout=timeout, as_json=as_json)


@click.command()
@click.argument("name")
@click.argument("storage", metavar="SIZE")
@wait_options
@json_option
@server_options
def resize(name: str, storage: str, wait: bool, timeout: float | None, as_json: bool, **flags: Any) -> None:
    """Give the instance NAME this much storage, such as 20Gi, where its driver can."""
    server = server_for(flags)
    asked = server.change("PUT", path_of(INSTANCES.path, name, "storage"), {"storage": storage})
    conclude(server, INSTANCES, asked, wait=wait, timeout=timeout, as_json=as_json)
