"""Limits of waiting: for the end of work, and for a server that is unreachable meanwhile."""

import math
import time
from typing import TYPE_CHECKING, Any

from interlock.errors import ServerUnreachable, StillWorking

if TYPE_CHECKING:
    from interlock.cli.server.client import ControlPlane

LONGEST_PAUSE = 1.0
_OUTAGE = 60.0
"""Seconds that a server has to come back, for instance from a restart."""


class Deadline:
    """The moment at which a wait ends. `timeout` is in seconds from now; None means: no limit."""

    def __init__(self, timeout: float | None) -> None:
        self.timeout = timeout
        self.at = math.inf if timeout is None else time.monotonic() + timeout

    def pause(self, seconds: float) -> bool:
        """Sleep, at most until the deadline. Returns False if the deadline had passed before the pause."""
        remaining = self.at - time.monotonic()
        time.sleep(max(0.0, min(seconds, remaining)))
        return remaining > 0


class OutageTolerantReader:
    """Reads from the control plane, and waits while it restarts. The user is notified once why the command waits."""

    def __init__(self, server: "ControlPlane", deadline: Deadline) -> None:
        self._server = server.within(deadline.at)
        self._deadline = deadline

    def get(self, path: str, **query: Any) -> Any:
        """Returns the server's answer. Raises StillWorking if the deadline passes while the server is unreachable."""
        away_since: float | None = None
        while True:
            try:
                return self._server.get(path, **query)
            except ServerUnreachable as error:
                if away_since is None:
                    away_since = time.monotonic()
                    self._server.notify(f"{error} Waiting for the control plane.")
                elif time.monotonic() > away_since + _OUTAGE:
                    raise
                if not self._deadline.pause(LONGEST_PAUSE):
                    raise StillWorking(
                        f"{self._deadline.timeout:g} s have passed, and no control plane answers: start one, and the "
                        "requested work goes on."
                    ) from error
