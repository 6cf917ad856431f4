"""How far it is, while a command waits: on standard error, so that what comes of it is alone on standard output."""

import os
import shutil
import sys
from types import TracebackType
from typing import Self, TextIO

_ERASE = "\r\x1b[K"


class Progress:
    """On a terminal one line that changes; elsewhere a line for each step."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._is_live = self._stream.isatty() and os.environ.get("TERM") != "dumb"

    def say(self, name: str, step: str) -> None:
        line = f"{name}: {step}"
        if self._is_live:
            self._stream.write(_ERASE + line[: shutil.get_terminal_size().columns - 1])
        else:
            self._stream.write(line + "\n")
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_live:
            self._stream.write(_ERASE)
            self._stream.flush()
