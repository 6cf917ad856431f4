"""Reading a server's log: its last lines, and then what it adds.

What is in it is the instance's users' to say: a statement that failed is in it as a whole, and may be a line of a
gigabyte. So no line is ever in memory as a whole, and what may take long is done in a thread.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import BinaryIO

_BLOCK = 64 * 1024
_LONGEST = 64 * 1024
"""Bytes of a line; what is longer is told as several."""
_LOOK_AGAIN = 0.2


async def read_lines(log: Path, lines: int, *, follow: bool) -> AsyncGenerator[str, None]:
    """Ends with the file; if that is followed, when it is removed. One that is put in its place is read as well."""
    is_first = True
    while (file := _opened(log)) is not None:
        with file:
            file.seek(await asyncio.to_thread(_start_of_last, file, lines) if is_first else 0)
            is_first = False
            for line in _lines(file, whole=follow):
                yield line
            while follow and _is_at(log, file):
                await asyncio.sleep(_LOOK_AGAIN)
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
    """What is left of the file; if only `whole` lines are wanted, a last one without an end is left for later."""
    while line := file.readline(_LONGEST):
        if whole and not line.endswith(b"\n") and len(line) < _LONGEST:
            file.seek(-len(line), os.SEEK_CUR)
            return
        yield line.decode(errors="replace").rstrip("\n")


def _start_of_last(file: BinaryIO, lines: int) -> int:
    """Where the last so many lines begin: after the newline that is before them, read from the end on."""
    end = place = file.seek(0, os.SEEK_END)
    missing = lines
    while missing and place > 0:
        step = min(_BLOCK, place)
        place = file.seek(place - step)
        block = file.read(step)
        newline = len(block) - (place + step == end)  # which may be the end of the last line, and begins none
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
