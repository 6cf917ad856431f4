"""Noticing that the store's clock was set: it then disagrees with ours about how long something took."""

_DRIFT = 0.001
"""What two clocks that nobody has set may part by, for each second that goes by."""


class ClockWatch:
    """Each reading of the store's clock was taken between two moments of ours, so their difference lies in a range.

    A clock that is slewed moves the range slowly, and so does drift: only what goes beyond that counts, from one
    reading to the next. A slow answer gives a wide range, which may hide a step: what was known better stays known.
    """

    __slots__ = ("_least", "_most", "_read_at")

    def __init__(self) -> None:
        self._least: float | None = None
        self._most = self._read_at = 0.0

    def stepped_by(self, clock: float, sent_at: float, received_at: float) -> float:
        """By how many seconds at least the clock was set since the last reading: forward (+) or back (-), else 0."""
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
