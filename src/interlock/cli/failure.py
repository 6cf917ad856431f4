"""How the command line fails: one line on standard error and an exit status, never a traceback at a user."""

import errno
import os
import signal
import sys
from typing import IO, Any

import click

from interlock.errors import EX_IOERR, InterlockError

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def say(error: InterlockError) -> None:
    click.echo(f"interlock: {' '.join(str(error).split())}", err=True)


class NothingToDo(click.ClickException):
    """Not an error of anybody's: what was asked about is not there. Exits with 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"interlock: {self.format_message()}", err=True)


class WorkFailed(NothingToDo):
    """What was waited for has ended, and not as it was meant to. Exits with 1."""


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
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            click.echo(f"interlock: What is to be told cannot be written: {error.strerror}.", err=True)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left in the buffer would fail once more at the end
            sys.exit(EX_IOERR)
