"""Tables on a terminal: as many columns as fit, the first ones first."""

import shutil
import sys
from collections.abc import Sequence

GAP = "  "


def fitting(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """The last columns are left out where `width` is too small for them; None: there is room for all."""
    return "\n".join(aligned([head, *rows], width))


def aligned(rows: Sequence[Sequence[str]], width: int | None = None) -> list[str]:
    """A line for each row."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    count = len(widths)
    while width is not None and count > 1 and sum(widths[:count]) + len(GAP) * (count - 1) > width:
        count -= 1
    return [_line(row[:count], widths) for row in rows]


def shortened(text: str, width: int) -> str:
    """The beginning and the end of a text that is too long: both tell apart names made of host, process and number."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def room() -> int | None:
    """The width of the terminal; None where what is written goes elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else None


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return GAP.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=False)).rstrip()
