"""Changes of an instance: set, resize, start, stop, restart, reset-password, cancel, delete and abandon."""

from typing import Any

import click

from interlock.cli.instance.presentation import INSTANCES, name_of
from interlock.cli.output import escaped, json_option
from interlock.cli.record.commands import confirmed_command, verb_command
from interlock.cli.record.conclusion import conclude, not_cancelled, wait_options
from interlock.cli.record.confirmation import confirm, yes_option
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


start = verb_command(INSTANCES, "start", "Start the instance NAME, which is stopped.")
stop = verb_command(INSTANCES, "stop", "Stop the instance NAME. Its data, its names and its address stay.")
restart = verb_command(INSTANCES, "restart", "Stop the instance NAME and start it again.")
reset_password = verb_command(
    INSTANCES,
    "reset-password",
    "Give the owner of the instance NAME a new password; `interlock instance password` tells it.",
)
cancel = verb_command(
    INSTANCES,
    "cancel",
    "Cancel what works on the instance NAME. A creation is undone; of all else, the instance stays as it is then.",
    why_not=not_cancelled,
)
abandon = confirmed_command(
    INSTANCES,
    "abandon",
    """Free the names of the instance NAME, which could not be deleted: where it is cannot be reached any more.

    What there is of it, data too, stays where it is.
    """,
    "Abandon {}? Its names are freed, and what there is of it is left behind.",
    "abandon it",
    method="POST",
    verb="abandon",
)


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@yes_option
@wait_options
@json_option
@server_options
def delete(names: tuple[str, ...], yes: bool, wait: bool, timeout: float | None, as_json: bool, **flags: Any) -> None:
    """Delete instances with their data, whatever works on them. Their names are free when everything is gone."""
    server = server_for(flags)
    if not yes:
        listed = ", ".join(map(escaped, names))
        confirm(f"Delete {listed}, with all data? This cannot be undone.", "delete")
    if len(names) == 1:
        asked = server.change("DELETE", path_of(INSTANCES.path, names[0]))
        conclude(server, INSTANCES, asked, wait=wait, timeout=timeout, as_json=as_json)
        return
    from interlock.cli.instance.bulk import in_bulk

    in_bulk(server, "delete", names, wait=wait, timeout=timeout, as_json=as_json)
