"""SIGINT, SIGTERM and SIGHUP as requests to stop, for the whole life of the process.

`StopSignals` handles the signals until everything is closed. An event loop's own handlers end with the loop, and a
second Ctrl-C after that would end the process before its database is stopped.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self


class StopSignals:
    """Inside the block these signals do not end the process. After a received signal, they do not end it later either.

    Use this only in the main thread. SIGINT and SIGHUP stay ignored if the process was started with them ignored: in
    the background of a script, or by `nohup`.
    """

    def __init__(self) -> None:
        self.received = 0
        self._callback: Callable[[], None] | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signum is not signal.SIGTERM and signal.getsignal(signum) is signal.SIG_IGN:
                continue
            self._previous[signum] = signal.signal(signum, self._receive)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for signum, handler in self._previous.items():
            # A process that was asked to stop is about to end. Another Ctrl-C must not make that look like a crash.
            signal.signal(signum, signal.SIG_IGN if self.received else handler)

    @contextmanager
    def calling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call `callback` for each signal inside the block, and at once for each signal that was received before.

        Outside the block signals are only counted.
        """
        self._callback = callback
        try:
            for _ in range(self.received):
                callback()
            yield
        finally:
            self._callback = None

    def _receive(self, signum: int, frame: FrameType | None) -> None:
        self.received += 1
        if self._callback:
            self._callback()
