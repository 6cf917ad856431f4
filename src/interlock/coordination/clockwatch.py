"""Noticing that the store's clock was set: it then disagrees with ours about how long something took."""

from dataclasses import dataclass


@dataclass(slots=True)
class ClockWatch:
    """Each reading of the store's clock was taken between two moments of ours, so their difference lies in a range.

    A clock that is slewed moves the range slowly, and so does drift: only the step from one reading to the next counts.
    """

    _least: float | None = None
    _most: float = 0.0

    def stepped_by(self, clock: float, sent_at: float, received_at: float) -> float:
        """By how many seconds at least the clock was set since the last reading: forward (+) or back (-), else 0."""
        least, most = clock - received_at, clock - sent_at
        before, self._least = self._least, least
        before_most, self._most = self._most, most
        if before is None:
            return 0.0
        if least > before_most:
            return least - before_most
        if most < before:
            return most - before
        return 0.0
