"""``interlock env``: the shell variables that lead other programs to the database."""

import shlex
from typing import Any

import click

from interlock.cli.settings import database_options, load_settings, url_of_database
from interlock.config import Settings, environment_name


@click.command()
@database_options
def env(**flags: Any) -> None:
    """Print the database's URL for a shell.

    \b
        eval "$(interlock env)"

    sets INTERLOCK_DATABASE_URL to the database that an option or setting names, else to the database of the
    `interlock up` that runs on the data directory. The URL works in psql and in every driver of PostgreSQL. It contains
    the password.
    """
    from interlock.embedded import with_socket_parameter

    settings = load_settings(**flags)
    url = with_socket_parameter(url_of_database(settings))
    click.echo("\n".join(_exports(settings, url)))


def _exports(settings: Settings, url: str) -> list[str]:
    """Returns the export lines. A schema or data directory that is not the default is exported as well."""
    values = {"database_url": url}
    if settings.schema != Settings.schema:
        values["schema"] = settings.schema
    if settings.data_dir != Settings().data_dir:
        values["data_dir"] = str(settings.data_dir.absolute())
    return [f"export {environment_name(name)}={shlex.quote(value)}" for name, value in values.items()]
