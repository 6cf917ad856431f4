"""How the command line fails: one line on standard error and an exit status, never a traceback at a user."""

import signal
import sys
from typing import Any

import click

from interlock.errors import InterlockError


def say(error: InterlockError) -> None:
    click.echo(f"interlock: {' '.join(str(error).split())}", err=True)


class InterlockGroup(click.Group):
    """Turns Interlock's errors into a line and a status; everything else is a bug and shows itself in full."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            sys.exit(128 + signal.SIGINT)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except InterlockError as error:
            say(error)
            sys.exit(error.exit_status)
