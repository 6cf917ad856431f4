"""``interlock instance backup``, ``backups``, ``verify``, ``delete-backup`` and ``restore``."""

from typing import Any

import click

from interlock.cli.instance.creation import property_options
from interlock.cli.instance.presentation import BACKUPS, INSTANCES
from interlock.cli.output import escaped, json_option
from interlock.cli.record.api import path_of
from interlock.cli.record.commands import confirmed_command, list_options, show_list, verb_command
from interlock.cli.record.conclusion import conclude, wait_options
from interlock.cli.record.options import as_mapping, confirm, yes_option
from interlock.cli.server.options import server_for, server_options


@click.command()
@click.argument("name")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["file", "directory"]),
    default="file",
    show_default=True,
    help="pg_dump's custom format in one file, or its directory format.",
)
@wait_options
@json_option
@server_options
def backup(name: str, kind: str, wait: bool, timeout: float | None, as_json: bool, **flags: Any) -> None:
    """Back up the instance NAME with pg_dump. The instance has to run."""
    server = server_for(flags)
    requested = server.change("POST", path_of(INSTANCES.path, name, "backups"), {"format": kind})
    conclude(server, BACKUPS, requested, wait=wait, timeout=timeout, as_json=as_json)


@click.command()
@click.argument("name", required=False)
@list_options
def backups(
    name: str | None, states: tuple[str, ...], deleted: bool, limit: int | None, as_json: bool, **flags: Any
) -> None:
    """Show the backups of the instance NAME, or of all instances, even deleted ones. The newest come first."""
    show_list(BACKUPS, flags, states=states, deleted=deleted, limit=limit, as_json=as_json, instance=name)


verify = verb_command(
    BACKUPS, "verify", "Check the files of BACKUP. Every file is read and compared with its recorded checksum."
)
delete_backup = confirmed_command(
    BACKUPS,
    "delete-backup",
    "Delete BACKUP and its files.",
    "Delete the backup {}, with its files? This cannot be undone.",
    "delete",
)


@click.command()
@click.argument("backup")
@click.argument("name", required=False)
@click.option("--into", metavar="NAME", help="A running instance: the backup replaces its content.")
@yes_option
@click.option("--dns-name", metavar="NAME", help="A DNS name for the new instance.")
@click.option("--driver", "kind", metavar="DRIVER", help="The driver of the new instance. [default: the old one's]")
@click.option("--version", metavar="N", help="PostgreSQL's major version. [default: the old one's]")
@property_options
@wait_options
@json_option
@server_options
def restore(
    backup: str,
    name: str | None,
    into: str | None,
    yes: bool,
    dns_name: str | None,
    kind: str | None,
    version: str | None,
    storage: str | None,
    parameters: tuple[tuple[str, str], ...],
    tags: tuple[tuple[str, str], ...],
    wait: bool,
    timeout: float | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Restore BACKUP into an instance.

    The instance is either a new one, NAME, or a running one, --into. The command restores everything or nothing.
    BACKUP is an id, or the first eight characters of an id.
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
    if (name is None) == (into is None) or (into and wanted):
        raise click.UsageError(
            "Name a new instance, with its properties, or use --into with a running one and no properties."
        )
    server = server_for(flags)
    if into and not yes:
        confirm(
            f"Replace the content of {escaped(into)} by the backup {escaped(backup)}? This cannot be undone.", "restore"
        )
    body = {"into": into} if into else {"name": name, **wanted}
    requested = server.change("POST", path_of(BACKUPS.path, backup, "restore"), body)
    conclude(server, INSTANCES, requested, wait=wait, timeout=timeout, as_json=as_json)
