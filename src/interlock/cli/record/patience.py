"""How long a command waits: for the end of some work, and for a server that is away meanwhile."""

import math
import time
from typing import TYPE_CHECKING, Any

from interlock.errors import ServerUnreachable, StillWorking

if TYPE_CHECKING:
    from interlock.cli.server.client import ControlPlane

LONGEST_PAUSE = 1.0
_PATIENCE = 60.0
"""Seconds that a server which is being started anew is waited for."""


class Deadline:
    """`timeout` in seconds from now; None is never."""

    def __init__(self, timeout: float | None) -> None:
        self.timeout = timeout
        self.at = math.inf if timeout is None else time.monotonic() + timeout

    def pause(self, seconds: float) -> bool:
        """Whether there was time left for it."""
        left = self.at - time.monotonic()
        time.sleep(max(0.0, min(seconds, left)))
        return left > 0


class OutagePatience:
    """Whoever waits minds no restart of the server, and is told once why nothing happens."""

    def __init__(self, server: "ControlPlane", deadline: Deadline) -> None:
        self._server = server.within(deadline.at)
        self._deadline = deadline

    def get(self, path: str, **query: Any) -> Any:
        """Raises StillWorking if the deadline passes while the server is away."""
        away_since: float | None = None
        while True:
            try:
                return self._server.get(path, **query)
            except ServerUnreachable as error:
                if away_since is None:
                    away_since = time.monotonic()
                    self._server.tell(f"{error} Waiting for it.")
                elif time.monotonic() > away_since + _PATIENCE:
                    raise
                if not self._deadline.pause(LONGEST_PAUSE):
                    raise StillWorking(
                        f"{self._deadline.timeout:g} s have passed, and no control plane answers: what was asked for "
                        "goes on as soon as one runs."
                    ) from error
