"""Tables on a terminal: as many columns as fit, the first ones first."""

import shutil
import sys
from collections.abc import Sequence

_GAP = "  "


def fitting(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """The last columns are left out where `width` is too small for them; None: there is room for all."""
    return "\n".join(aligned([head, *rows], width))


def aligned(rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """A line for each row."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    count = len(widths)
    while width is not None and count > 1 and sum(widths[:count]) + len(_GAP) * (count - 1) > width:
        count -= 1
    return [_line(row[:count], widths) for row in rows]


def room() -> int | None:
    """The width of the terminal; None where what is written goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else None


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=False)).rstrip()
