"""Changes of an instance: set, resize, start, stop, restart, reset-password, cancel, delete and abandon."""

from typing import Any

import click

from interlock.cli.instance.presentation import INSTANCES, name_of
from interlock.cli.output import escaped, json_option
from interlock.cli.record.api import path_of
from interlock.cli.record.commands import confirmed_command, verb_command
from interlock.cli.record.conclusion import cancel_failure, conclude, wait_options
from interlock.cli.record.options import as_mapping, confirm, pair, yes_option
from interlock.cli.server.options import server_for, server_options
from interlock.errors import InstanceBusy


@click.command("set")
@click.argument("name")
@click.argument("pairs", metavar="[PARAMETER=VALUE]...", nargs=-1, type=pair)
@click.option("--unset", metavar="PARAMETER", multiple=True, help="Return this parameter to its default; repeatable.")
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
    """Set PostgreSQL parameters of the instance NAME.

    The other parameters stay. The instance is restarted if a parameter needs that.
    """
    if not pairs and not unset:
        raise click.UsageError("Give a parameter to set, as in work_mem=64MB, or one to --unset.")
    given = {parameter.lower(): value for parameter, value in as_mapping(pairs, "parameter").items()}
    server = server_for(flags)
    found = server.get(path_of(INSTANCES.path, name))
    if found["working"]:  # which may be changing these parameters; the server compares the revision again
        raise InstanceBusy(
            f"{found['orchestration']} works on {name_of(found)}: wait until that work has ended, with "
            f"`interlock instance wait {name_of(found)}`.",
            orchestration=found["orchestration"],
        )
    kept = {key: value for key, value in found["parameters"].items() if key not in {one.lower() for one in unset}}
    body = {"parameters": kept | given}
    requested = server.change(
        "PUT", path_of(INSTANCES.path, found["id"], "parameters"), body, revision=found["revision"]
    )
    conclude(server, INSTANCES, requested, wait=wait, timeout=timeout, as_json=as_json)


@click.command()
@click.argument("name")
@click.argument("storage", metavar="SIZE")
@wait_options
@json_option
@server_options
def resize(name: str, storage: str, wait: bool, timeout: float | None, as_json: bool, **flags: Any) -> None:
    """Resize the storage of the instance NAME to SIZE, for example 20Gi. Not every driver can do that."""
    server = server_for(flags)
    requested = server.change("PUT", path_of(INSTANCES.path, name, "storage"), {"storage": storage})
    conclude(server, INSTANCES, requested, wait=wait, timeout=timeout, as_json=as_json)


start = verb_command(INSTANCES, "start", "Start the instance NAME, which has to be stopped.")
stop = verb_command(INSTANCES, "stop", "Stop the instance NAME. It keeps its data, names and address.")
restart = verb_command(INSTANCES, "restart", "Stop the instance NAME and start it again.")
reset_password = verb_command(
    INSTANCES,
    "reset-password",
    "Give the owner of the instance NAME a new password. `interlock instance password` prints the password.",
)
cancel = verb_command(
    INSTANCES,
    "cancel",
    "Cancel the work on the instance NAME. A creation is undone. Of any other change, the finished part stays.",
    failure=cancel_failure,
)
abandon = confirmed_command(
    INSTANCES,
    "abandon",
    """Free the names of an instance that cannot be reached.

    Use this if the deletion of the instance failed because its machine or cluster cannot be reached any more. The
    instance's data and everything else of the instance stay on that machine or cluster.
    """,
    "Abandon {}? Its names become free, and its data stay where they are.",
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
    """Delete instances with their data, even while other work is going on. Their names are free after the deletion."""
    server = server_for(flags)
    if not yes:
        confirm(f"Delete {', '.join(map(escaped, names))}, with all data? This cannot be undone.", "delete")
    if len(names) == 1:
        requested = server.change("DELETE", path_of(INSTANCES.path, names[0]))
        conclude(server, INSTANCES, requested, wait=wait, timeout=timeout, as_json=as_json)
        return
    from interlock.cli.instance.bulk import in_bulk

    in_bulk(server, "delete", names, wait=wait, timeout=timeout, as_json=as_json)
