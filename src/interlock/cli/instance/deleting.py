"""``interlock instance delete``, and ``abandon`` for what that could not remove."""

from typing import Any

import click

from interlock.cli.facts import json_option, shown
from interlock.cli.instance.telling import INSTANCES
from interlock.cli.record.conclusion import conclude, wait_options
from interlock.cli.record.confirmation import confirm
from interlock.cli.record.paths import path_of
from interlock.cli.server.options import server_for, server_options


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask. Scripts have to say this.")
@wait_options
@json_option
@server_options
def delete(names: tuple[str, ...], yes: bool, wait: bool, timeout: float | None, as_json: bool, **flags: Any) -> None:
    """Delete instances with their data, whatever works on them. Their names are free when everything is gone."""
    server = server_for(flags)
    if not yes:
        listed = ", ".join(map(shown, names))
        confirm(f"Delete {listed}, with all data? This cannot be undone.", "delete")
    if len(names) == 1:
        asked = server.change("DELETE", path_of(INSTANCES.path, names[0]))
        conclude(server, INSTANCES, asked, wait=wait, timeout=timeout, as_json=as_json)
        return
    from interlock.cli.instance.bulk import in_bulk

    in_bulk(server, "delete", names, wait=wait, timeout=timeout, as_json=as_json)


@click.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask. Scripts have to say this.")
@wait_options
@json_option
@server_options
def abandon(name: str, yes: bool, wait: bool, timeout: float | None, as_json: bool, **flags: Any) -> None:
    """Free the names of the instance NAME, which could not be deleted: where it is cannot be reached any more.

    What there is of it, data too, stays where it is.
    """
    server = server_for(flags)
    if not yes:
        confirm(f"Abandon {shown(name)}? Its names are freed, and what there is of it is left behind.", "abandon it")
    asked = server.change("POST", path_of(INSTANCES.path, name, "abandon"))
    conclude(server, INSTANCES, asked, wait=wait, timeout=timeout, as_json=as_json)
