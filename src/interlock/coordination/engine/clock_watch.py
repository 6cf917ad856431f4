"""Detects that the store's clock was set: that clock then disagrees with this machine's clock about a length of
time."""

_DRIFT = 0.001
"""The seconds per second by which two clocks that were not set may drift apart."""


class ClockWatch:
    """Keeps the range of the difference between the store's clock and this machine's clock. Each reading of the store's
    clock was taken between two moments of this machine's clock, so the difference lies in a range.

    A clock that is slewed moves that range slowly, and so does drift: only a faster move, from one reading to the next,
    counts as a step. A slow answer gives a wide range, which may hide a step; then the narrower range known before is
    kept.
    """

    __slots__ = ("_least", "_most", "_read_at")

    def __init__(self) -> None:
        self._least: float | None = None
        self._most = self._read_at = 0.0

    def stepped_by(self, clock: float, sent_at: float, received_at: float) -> float:
        """Return the least number of seconds by which the clock was set since the last reading: positive if set
        forward, negative if set back, 0 if no step was seen."""
        least, most, step = clock - received_at, clock - sent_at, 0.0
        if self._least is not None:
            drift = _DRIFT * (received_at - self._read_at)
            known_least, known_most = self._least - drift, self._most + drift
            step = max(least - known_most, 0.0) + min(most - known_least, 0.0)
            if not step:
                least, most = max(least, known_least), min(most, known_most)
            elif most - least > 2 * (known_most - known_least):
                least, most = known_least, known_most
        self._least, self._most, self._read_at = least, most, received_at
        return step
