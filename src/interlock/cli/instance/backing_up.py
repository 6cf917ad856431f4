"""``interlock instance backup``, ``backups``, ``verify`` and ``delete-backup``."""

import json
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import click

from interlock.cli.facts import json_option, shown
from interlock.cli.instance.backup_telling import BACKUPS, as_table
from interlock.cli.instance.telling import INSTANCES
from interlock.cli.record.conclusion import conclude, wait_options
from interlock.cli.record.confirmation import confirm
from interlock.cli.record.pages import PAGE, pages
from interlock.cli.record.paths import path_of
from interlock.cli.server.options import server_for, server_options
from interlock.cli.table import room


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
    """Back up the instance NAME, which has to run, with pg_dump."""
    server = server_for(flags)
    asked = server.change("POST", path_of(INSTANCES.path, name, "backups"), {"format": kind})
    conclude(server, BACKUPS, asked, wait=wait, timeout=timeout, as_json=as_json)


@click.command()
@click.argument("name", required=False)
@click.option("--state", "states", metavar="STATE", multiple=True, help="Only those; repeatable.")
@click.option("--deleted", is_flag=True, help="Also those that are deleted.")
@click.option("--limit", type=click.IntRange(1), help="The newest so many.")
@json_option
@server_options
def backups(
    name: str | None, states: tuple[str, ...], deleted: bool, limit: int | None, as_json: bool, **flags: Any
) -> None:
    """Show the backups of the instance NAME, also if it is gone; without it, of all. The newest come first."""
    query = {
        "instance": name,
        "state": states or None,
        "deleted": "true" if deleted else None,
        "limit": min(limit or PAGE, PAGE),
    }
    found = list(islice(pages(server_for(flags).get, "/backups", query), limit))
    if as_json:
        click.echo(json.dumps(found))
    else:
        click.echo(as_table(found, datetime.now(UTC), room()) if found else "There is no such backup.")


@click.command()
@click.argument("backup")
@wait_options
@json_option
@server_options
def verify(backup: str, wait: bool, timeout: float | None, as_json: bool, **flags: Any) -> None:
    """Compare the files of BACKUP with what was written, and read them to their end."""
    server = server_for(flags)
    asked = server.change("POST", path_of(BACKUPS.path, backup, "verify"))
    conclude(server, BACKUPS, asked, wait=wait, timeout=timeout, as_json=as_json)


@click.command("delete-backup")
@click.argument("backup")
@click.option("--yes", is_flag=True, help="Do not ask. Scripts have to say this.")
@wait_options
@json_option
@server_options
def delete_backup(backup: str, yes: bool, wait: bool, timeout: float | None, as_json: bool, **flags: Any) -> None:
    """Delete BACKUP, with its files."""
    server = server_for(flags)
    if not yes:
        confirm(f"Delete the backup {shown(backup)}, with its files? This cannot be undone.", "delete")
    asked = server.change("DELETE", path_of(BACKUPS.path, backup))
    conclude(server, BACKUPS, asked, wait=wait, timeout=timeout, as_json=as_json)
