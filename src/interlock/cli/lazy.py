"""Groups that import a command when it is called: `interlock` is used in scripts, where its start-up time counts."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from interlock.cli.failure import InterlockGroup


class LazyGroup(InterlockGroup):
    """`homes` says where each command is defined, as ``module:attribute``."""

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
