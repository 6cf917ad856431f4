"""``interlock up``: starts the control plane, on a database of its own or on the database that a setting names."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from interlock.cli.settings import database_options, load_settings, option
from interlock.config import Settings
from interlock.errors import ConfigurationError


@click.command()
@option("port", metavar="PORT")
@option("host", metavar="ADDRESS")
@database_options
def up(**flags: Any) -> None:
    """Start the control plane.

    If no database is named, the command also starts a PostgreSQL in the data directory. Several `interlock up` on one
    data directory share that PostgreSQL, and the last of them to stop also stops the PostgreSQL.
    """
    _server()(_with_own_database(load_settings(**flags)), click.echo)


def _with_own_database(settings: Settings) -> Settings:
    """Drop a `database_url` that leads to the embedded database, as after `interlock env`: it has to be started."""
    from interlock.embedded import cluster_root, leads_to

    if settings.database_url and leads_to(settings.database_url, cluster_root(settings.data_dir)):
        return replace(settings, database_url=None)
    return settings


def _server() -> Callable[[Settings, Callable[[str], None]], None]:
    try:
        from interlock.server.service import serve
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "interlock":
            raise
        raise ConfigurationError(
            f"`interlock up` needs packages that are not installed ({error.name}): "
            "run pip install 'interlock[server,embedded]'."
        ) from error
    return serve
