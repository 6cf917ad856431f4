"""``interlock instance restore``."""

from typing import Any

import click

from interlock.cli.facts import json_option, shown
from interlock.cli.instance.backup_telling import BACKUPS
from interlock.cli.instance.telling import INSTANCES
from interlock.cli.instance.wishes import wish_options
from interlock.cli.record.conclusion import conclude, wait_options
from interlock.cli.record.confirmation import confirm
from interlock.cli.record.pairs import as_mapping
from interlock.cli.record.paths import path_of
from interlock.cli.server.options import server_for, server_options


@click.command()
@click.argument("backup")
@click.argument("name", required=False)
@click.option("--into", metavar="NAME", help="An instance that runs: what the backup brings replaces what is there.")
@click.option("--yes", is_flag=True, help="With --into: do not ask. Scripts have to say this.")
@click.option("--dns-name", metavar="NAME", help="A host name of its own for the new one.")
@click.option("--driver", "kind", metavar="DRIVER", help="Where the new one runs. [default: as the old one]")
@click.option("--version", metavar="N", help="PostgreSQL's major version. [default: the old one's]")
@wish_options
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
    """Restore BACKUP into the new instance NAME, or --into one that runs, all of it or nothing.

    BACKUP is the id of one, or its first eight characters.
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
        raise click.UsageError("Name a new instance and say what it is to be like, or say --into which one.")
    server = server_for(flags)
    if into and not yes:
        confirm(f"Replace what is in {shown(into)} by the backup {shown(backup)}? This cannot be undone.", "restore")
    body = {"into": into} if into else {"name": name, **wanted}
    asked = server.change("POST", path_of(BACKUPS.path, backup, "restore"), body)
    conclude(server, INSTANCES, asked, wait=wait, timeout=timeout, as_json=as_json)
