"""``interlock instance create``, and the options of every command that makes an instance."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from interlock.cli.instance.presentation import INSTANCES
from interlock.cli.output import json_option
from interlock.cli.record.conclusion import conclude, wait_options
from interlock.cli.record.options import as_mapping, pair
from interlock.cli.server.options import server_for, server_options

F = TypeVar("F", bound=Callable[..., Any])


def property_options(command: F) -> F:
    """The options for the properties of a new instance."""
    command = click.option(
        "--tag",
        "tags",
        type=pair,
        multiple=True,
        metavar="NAME=VALUE",
        help="A tag, by which `instance list --tag` finds it; repeatable.",
    )(command)
    command = click.option(
        "--parameter",
        "parameters",
        type=pair,
        multiple=True,
        metavar="NAME=VALUE",
        help="A PostgreSQL parameter; repeatable.",
    )(command)
    return click.option("--storage", metavar="SIZE", help="The size of the storage, for example 10Gi or 500MB.")(
        command
    )


@click.command()
@click.argument("name", required=False)
@click.option("--dns-name", metavar="NAME", help="The instance's own host name; no other instance can have it.")
@click.option("--driver", "kind", metavar="DRIVER", help="local or kubernetes. [default: the server's]")
@click.option("--version", metavar="N", help="PostgreSQL's major version. [default: the driver's newest]")
@property_options
@click.option(
    "--file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Create many: a JSON list of objects with these properties, or [[instances]] in TOML.",
)
@wait_options
@json_option
@server_options
def create(
    name: str | None,
    dns_name: str | None,
    kind: str | None,
    version: str | None,
    storage: str | None,
    parameters: tuple[tuple[str, str], ...],
    tags: tuple[tuple[str, str], ...],
    file: Path | None,
    wait: bool,
    timeout: float | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Create the PostgreSQL instance NAME.

    The instance gets a database and an owner with the same name. If the name is taken, the command names its owner and
    exits with 73 at once. With --wait, exit status 1 means that the creation failed, and that all it had made was
    removed.
    """
    given = {
        "dns_name": dns_name,
        "driver": kind,
        "version": version,
        "storage": storage,
        "parameters": as_mapping(parameters, "parameter"),
        "tags": as_mapping(tags, "tag"),
    }
    wanted = {key: value for key, value in given.items() if value}
    if (name is None) == (file is None) or (file and wanted):
        raise click.UsageError("Give the name and properties of one instance, or --file without a name or properties.")
    server = server_for(flags)
    if file:
        from interlock.cli.instance.bulk import in_bulk, wanted_in

        in_bulk(server, "create", wanted_in(file), wait=wait, timeout=timeout, as_json=as_json)
        return
    requested = server.change("POST", "/instances", {"name": name, **wanted})
    conclude(server, INSTANCES, requested, wait=wait, timeout=timeout, as_json=as_json)
