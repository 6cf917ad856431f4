"""The options of every command that talks to the control plane, and the client that they select."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from interlock.cli.settings import option
from interlock.cli.terminal import print_aside
from interlock.config import Settings

if TYPE_CHECKING:
    from interlock.cli.server.client import ControlPlane

F = TypeVar("F", bound=Callable[..., Any])


def server_options(command: F) -> F:
    """Add the options. The command gets them as keywords, and passes them to `server_for`."""
    command = click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings in TOML.")(
        command
    )
    command = option("data_dir", metavar="DIRECTORY")(command)
    return option("server", metavar="URL")(command)


def server_for(flags: dict[str, Any]) -> "ControlPlane":
    from interlock.cli.server.client import ControlPlane
    from interlock.cli.server.location import locate_server

    location = locate_server(_settings_of(flags), config=flags.get("config"))
    return ControlPlane(location, notify=print_aside)


def settings_for(flags: dict[str, Any]) -> Settings:
    return Settings.load(_settings_of(flags), file=flags.get("config"))


def _settings_of(flags: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flags.items() if name != "config"}
