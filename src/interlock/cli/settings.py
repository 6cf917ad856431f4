"""The options that commands share, and the settings, the database and the operator that follow from them."""

import getpass
import os
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from interlock import logs
from interlock.config import Settings, about
from interlock.errors import ConfigurationError
from interlock.stores.scheme import FOR_LEASES_ALONE

if TYPE_CHECKING:
    from interlock.coordination.operators import LeaseOperator
    from interlock.stores.postgres import Session

_REQUEST_TIMEOUT = 5.0

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def option(setting: str, flag: str | None = None, **options: Any) -> Callable[[F], F]:
    """Returns an option for the setting. Its help text is the setting's description."""
    name = flag or "--" + setting.replace("_", "-")
    return click.option(name, setting, default=None, help=about()[setting], **options)


def database_options(command: F) -> F:
    """Add the options of commands that work on a database. The command passes their values to `load_settings`."""
    command = click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings in TOML.")(
        command
    )
    command = option("data_dir", metavar="DIRECTORY")(command)
    command = option("schema", metavar="NAME")(command)
    return option("database_url", "--database", metavar="URL")(command)


def load_settings(*, config: Path | None = None, **flags: Any) -> Settings:
    """Load the settings, and set up the log as they say."""
    settings = Settings.load(flags, file=config)
    if flags.get("data_dir") and not flags.get("database_url"):
        settings = replace(
            settings, database_url=None
        )  # an option wins over the environment, and this one names another database
    logs.set_up(settings.log_format, settings.log_level)
    return settings


def url_of_database(settings: Settings) -> str:
    """Returns the URL of the database that the settings name, else of the one that `interlock up` runs."""
    if settings.database_url:
        return settings.database_url
    if url := _embedded_url(settings.data_dir):
        return url
    raise ConfigurationError(
        f"No database was named, and no `interlock up` runs on {settings.data_dir}: set INTERLOCK_DATABASE_URL, pass "
        "--database, or start `interlock up`."
    )


def run_on_database(work: "Callable[[Session, Settings], Awaitable[T]]", flags: dict[str, Any]) -> T:
    """Run `work` with a session on the database of the command."""
    from interlock.stores.postgres import connect

    settings = load_settings(**flags)
    url = url_of_database(settings)
    if (kind := url.partition(":")[0].lower()) in FOR_LEASES_ALONE:
        raise ConfigurationError(f"A {kind}:// database keeps only leases: use a postgresql:// database.")

    async def connected() -> T:
        async with await connect(url, application_name="interlock command") as session:
            return await work(session, settings)

    return run(connected())


def run_on_leases(work: "Callable[[LeaseOperator], Awaitable[T]]", flags: dict[str, Any]) -> T:
    """Run `work` with the operator's view of the leases in the database, which may be of any kind."""
    from interlock.coordination.backends.choice import StoreOptions, choose_database

    settings = load_settings(**flags)
    named = choose_database(url_of_database(settings), StoreOptions(None, settings.schema, "detect", _REQUEST_TIMEOUT))

    async def opened() -> T:
        async with named.operator() as operator:
            return await work(operator)

    return run(opened())


def _embedded_url(data_dir: Path) -> str | None:
    from interlock.embedded import cluster_root, running_url

    return running_url(cluster_root(data_dir))


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    import asyncio  # not at the top, because it costs start-up time, and not every command needs it

    return asyncio.run(coroutine)


def operator_name() -> str:
    """Returns the user and host of this process, for the records of interventions."""
    return f"{_user()}@{os.uname().nodename}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return f"uid-{os.getuid()}"
