"""The failure of a command: one line on standard error and an exit status, never a traceback."""

import errno
import os
import signal
import sys
from typing import IO, Any

import click

from interlock.errors import EX_IOERR, InterlockError

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def print_error(error: InterlockError) -> None:
    click.echo(f"interlock: {' '.join(str(error).split())}", err=True)


class NothingToDo(click.ClickException):
    """The object of the command does not exist, or is not in the state to which the command applies. Exits with 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"interlock: {self.format_message()}", err=True)


class WorkFailed(NothingToDo):
    """The work that the command waited for did not end in the requested state. Exits with 1."""


class InterlockGroup(click.Group):
    """Prints an Interlock error as one line, and exits with the error's status. Any other exception is a bug."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            sys.exit(128 + signal.SIGINT)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except InterlockError as error:
            print_error(error)
            sys.exit(error.exit_status)
        except OSError as error:
            if error.errno not in _DISK_FULL:
                raise
            click.echo(f"interlock: The output cannot be written: {error.strerror}. Make room on the disk.", err=True)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the rest of the buffer would fail once more at the exit
            sys.exit(EX_IOERR)
