"""Output on a terminal: tables that fit its width, and a line that is rewritten while a command waits."""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TextIO

import click

ERASE = "\r\x1b[K"
GAP = "  "
_USUAL_WIDTH = 80


def table_text(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """Returns a table without the last columns if `width` is too small for them. `width=None` means: all columns."""
    return "\n".join(aligned_lines([head, *rows], width))


def aligned_lines(rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """Returns a line for each row, with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    count = len(widths)
    while width is not None and count > 1 and sum(widths[:count]) + len(GAP) * (count - 1) > width:
        count -= 1
    return [_line(row[:count], widths) for row in rows]


def shortened(text: str, width: int) -> str:
    """Cut the middle out of a long text: names of host, process and number differ at their beginning and end."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def terminal_width() -> int | None:
    """Returns the width of the terminal; None if standard output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else None


def is_rewritable(stream: TextIO | None) -> bool:
    """Return True if a line on this stream can be rewritten. `stream=None` means: the stream is closed."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def width_of(stream: TextIO) -> int:
    """Returns the width of this stream's own terminal, because standard output may be redirected."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError):
        return shutil.get_terminal_size((_USUAL_WIDTH, 24)).columns


def print_aside(message: str) -> None:
    """Print a line on standard error, in place of a line that is being rewritten."""
    click.echo(f"{ERASE if is_rewritable(sys.stderr) else ''}interlock: {message}", err=True)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=False)).rstrip()
