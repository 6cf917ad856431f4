"""The options that commands share, and the settings that they amount to."""

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

_PATIENCE = 5.0

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def option(setting: str, flag: str | None = None, **options: Any) -> Callable[[F], F]:
    """A flag for a setting, with the setting's own description."""
    name = flag or "--" + setting.replace("_", "-")
    return click.option(name, setting, default=None, help=about()[setting], **options)


def database_options(command: F) -> F:
    """For every command that works on a database; it gets them as keywords, and passes them on to `loaded`."""
    command = click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings in TOML.")(
        command
    )
    command = option("data_dir", metavar="DIRECTORY")(command)
    command = option("schema", metavar="NAME")(command)
    return option("database_url", "--database", metavar="URL")(command)


def loaded(*, config: Path | None = None, **flags: Any) -> Settings:
    """The settings that hold, with the log set up as they say."""
    settings = Settings.load(flags, file=config)
    if flags.get("data_dir") and not flags.get("database_url"):
        settings = replace(settings, database_url=None)  # a flag beats the environment: this names the other database
    logs.set_up(settings.log_format, settings.log_level)
    return settings


def database(settings: Settings) -> str:
    """The database to work on: the one that is named, else the one that `interlock up` runs in the data directory."""
    if settings.database_url:
        return settings.database_url
    if url := _embedded_url(settings.data_dir):
        return url
    raise ConfigurationError(
        f"No database is named, and no `interlock up` runs on {settings.data_dir}: set INTERLOCK_DATABASE_URL, pass "
        "--database, or start `interlock up`."
    )


def on_database(work: "Callable[[Session, Settings], Awaitable[T]]", flags: dict[str, Any]) -> T:
    """Run `work` with a session on the database to work on, for a command that only looks or says something."""
    from interlock.stores.postgres import connect

    settings = loaded(**flags)
    url = database(settings)
    if (kind := url.partition(":")[0].lower()) in FOR_LEASES_ALONE:
        raise ConfigurationError(f"A {kind}:// database has leases alone: name the PostgreSQL that this is kept in.")

    async def connected() -> T:
        async with await connect(url, application_name="interlock command") as session:
            return await work(session, settings)

    return run(connected())


def on_leases(work: "Callable[[LeaseOperator], Awaitable[T]]", flags: dict[str, Any]) -> T:
    """Run `work` with what an operator sees of the leases in the database to work on, whatever kind it is."""
    from interlock.coordination.backends.choice import StoreOptions, choose_database

    settings = loaded(**flags)
    named = choose_database(database(settings), StoreOptions(None, settings.schema, "detect", _PATIENCE))

    async def opened() -> T:
        async with named.operator() as operator:
            return await work(operator)

    return run(opened())


def _embedded_url(data_dir: Path) -> str | None:
    from interlock.embedded import cluster_root, running_url

    return running_url(cluster_root(data_dir))


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    import asyncio  # here, because not every command needs it, and their start counts

    return asyncio.run(coroutine)
