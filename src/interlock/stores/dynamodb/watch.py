"""Watches held leases, to find out when they may be taken over.

DynamoDB has no clock that a condition could use, and the clocks of the clients may differ by any amount. So a process
that wants a held lease watches its item: the item changes as long as the holder renews the lease. If the item stayed
unchanged for the lease's whole ttl, counted on this process's clock from after the first read, then the lease was not
renewed for that long, and its holder has stopped trusting it: the holder counts from before its last renewal.

If a bound for the clocks' difference is known, the expiry that the holder wrote is used as well.
"""

from collections.abc import Callable

from interlock.stores.dynamodb.row import Row

_MOST = 10_000


class LeaseWatch:
    """The observed states of leases that other processes hold."""

    def __init__(
        self, clock: Callable[[], float], wall_clock: Callable[[], float], max_clock_skew: float | None
    ) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._skew = max_clock_skew
        self._seen: dict[str, tuple[tuple[str | None, int, int], float]] = {}

    def remaining(self, row: Row) -> float:
        """Returns the seconds that this item has to stay unchanged before the lease may be taken over; 0 or less: now.

        Call this method after the item was received.
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
        if len(self._seen) >= _MOST:  # its watch starts again, and takes longer
            del self._seen[next(iter(self._seen))]
        self._seen[row.name] = (row.state, now)
        return 0.0
