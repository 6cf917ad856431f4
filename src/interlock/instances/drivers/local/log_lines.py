"""Reading of a server's log: its last lines, and then new ones.

The users of the instance decide what is in the log. A failed statement is logged completely, and may be a line of a
gigabyte. So a line is never in memory as a whole, and long reads run in a thread.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import BinaryIO

_BLOCK = 64 * 1024
_LONGEST = 64 * 1024
"""Bytes of a line. A longer line is returned as several lines."""
_POLL = 0.2


async def read_lines(log: Path, lines: int, *, follow: bool) -> AsyncGenerator[str, None]:
    """Read to the end of the file; with `follow`, read until the file is removed.

    A file that replaces it is read too.
    """
    is_first = True
    while (file := _opened(log)) is not None:
        with file:
            file.seek(await asyncio.to_thread(_start_of_last, file, lines) if is_first else 0)
            is_first = False
            for line in _lines(file, whole=follow):
                yield line
            while follow and _is_at(log, file):
                await asyncio.sleep(_POLL)
                for line in _lines(file, whole=True):
                    yield line
        if not follow:
            return


def _opened(log: Path) -> BinaryIO | None:
    try:
        return log.open("rb")
    except FileNotFoundError:
        return None


def _lines(file: BinaryIO, *, whole: bool) -> Iterator[str]:
    """Yields the lines of the rest of the file. With `whole`, a last line without a newline is left for later."""
    while line := file.readline(_LONGEST):
        if whole and not line.endswith(b"\n") and len(line) < _LONGEST:
            file.seek(-len(line), os.SEEK_CUR)
            return
        yield line.decode(errors="replace").rstrip("\n")


def _start_of_last(file: BinaryIO, lines: int) -> int:
    """Returns the offset of the last `lines` lines, found by reading backwards."""
    end = place = file.seek(0, os.SEEK_END)
    missing = lines
    while missing and place > 0:
        step = min(_BLOCK, place)
        place = file.seek(place - step)
        block = file.read(step)
        newline = len(block) - (place + step == end)  # a newline at the end of the file begins no line
        while (newline := block.rfind(b"\n", 0, newline)) >= 0:
            missing -= 1
            if not missing:
                return place + newline + 1
    return 0 if lines else end


def _is_at(log: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(log.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
