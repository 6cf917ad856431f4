"""How far it is, while a command waits: on standard error, so that what comes of it is alone on standard output."""

import io
import sys
from types import TracebackType
from typing import Self, TextIO

from interlock.cli.terminal import ERASE, is_rewritable, width_of


class ProgressLines:
    """On a terminal one line that changes; elsewhere a line for each step."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr or io.StringIO()  # which is None where it is closed
        self._is_live = is_rewritable(self._stream)

    def say(self, name: str, step: str) -> None:
        line = f"{name}: {step}"
        if self._is_live:
            self._stream.write(ERASE + line[: width_of(self._stream) - 1])
        else:
            self._stream.write(line + "\n")
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_live:
            self._stream.write(ERASE)
            self._stream.flush()
