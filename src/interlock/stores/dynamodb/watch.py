"""How long a lease still has to be left alone, as seen from here.

DynamoDB has no clock that a condition could ask, and the clocks of the clients may differ by any amount. So whoever
wants a lease that is held looks at its record: as long as its holder renews it, the record changes. One that was seen
unchanged for the whole length of the lease, counted on our own clock from after the first look, has not been renewed
for so long, and its holder has stopped trusting it: it counts from before its last renewal, and ends earlier.

Where a bound on what the clocks differ by is stated, the time that the holder wrote down may be believed that far.
"""

from collections.abc import Callable

from interlock.stores.dynamodb.row import Row

_MOST = 10_000


class LeaseWatch:
    """What this process saw of leases that others hold."""

    def __init__(
        self, clock: Callable[[], float], wall_clock: Callable[[], float], max_clock_skew: float | None
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._skew = max_clock_skew
        self._seen: dict[str, tuple[tuple[str | None, int, int], float]] = {}

    def remaining(self, row: Row) -> float:
        """For how long this record has to stay as it is before the lease may be taken over: 0 or less is now.

        To be called after the record was received.
        """
        left = row.ttl - self._unchanged_for(row)
        if self._skew is not None:
            left = min(left, row.expires_at + self._skew - self._wall_clock())
        return left

    def is_watched(self, name: str) -> bool:
        return name in self._seen

    def forget(self, name: str) -> None:
        self._seen.pop(name, None)

    def _unchanged_for(self, row: Row) -> float:
        now = self._clock()
        seen = self._seen.get(row.name)
        if seen is not None and seen[0] == row.state:
            return now - seen[1]
        if len(self._seen) >= _MOST:  # whom that hits begins anew, and waits longer
            del self._seen[next(iter(self._seen))]
        self._seen[row.name] = (row.state, now)
        return 0.0
