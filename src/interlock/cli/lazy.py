"""Groups that import a command only when it is called, because scripts need a short start-up time of `interlock`."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from interlock.cli.failure import InterlockGroup


class LazyGroup(InterlockGroup):
    """A group of commands. `homes` gives the place of each command's definition, as ``module:attribute``."""

    def __init__(self, *args: Any, homes: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._homes = homes

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(self._homes)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in self._homes:
            return None
        module, _, attribute = self._homes[name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command
