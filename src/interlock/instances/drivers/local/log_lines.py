"""Reading a server's log: its last lines, and then what it adds."""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import BinaryIO

_BLOCK = 64 * 1024
_LOOK_AGAIN = 0.2


async def read_lines(log: Path, lines: int, *, follow: bool) -> AsyncGenerator[str, None]:
    """Ends with the file; if that is followed, when it is removed. One that is put in its place is read as well."""
    is_first = True
    while (file := _opened(log)) is not None:
        with file:
            file.seek(_start_of_last(file, lines) if is_first else 0)
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
    while line := file.readline():
        if whole and not line.endswith(b"\n"):
            file.seek(-len(line), os.SEEK_CUR)
            return
        yield line.decode(errors="replace").rstrip("\n")


def _start_of_last(file: BinaryIO, lines: int) -> int:
    """Where the last so many lines begin."""
    end = file.seek(0, os.SEEK_END)
    place, tail = end, b""
    while place > 0 and tail.count(b"\n") <= lines:
        step = min(_BLOCK, place)
        place = file.seek(place - step)
        tail = file.read(step) + tail
    kept = tail.splitlines(keepends=True)[-lines:] if lines > 0 else []
    return end - sum(map(len, kept))


def _is_at(log: Path, file: BinaryIO) -> bool:
    try:
        return os.path.samestat(log.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
