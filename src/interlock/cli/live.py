"""Standard error as a terminal has it: with a line that changes while a command waits, and words beside that."""

import os
import shutil
import sys
from typing import TextIO

import click

ERASE = "\r\x1b[K"
_USUAL = 80


def is_live(stream: TextIO | None) -> bool:
    """Whether a line can be written over. None is a stream that is closed."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int:
    """Of that very one: standard output may go elsewhere."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL
    except (OSError, ValueError):
        return shutil.get_terminal_size((_USUAL, 24)).columns


def aside(said: str) -> None:
    """A line of its own, and not the end of the one that changes."""
    click.echo(f"{ERASE if is_live(sys.stderr) else ''}interlock: {said}", err=True)
