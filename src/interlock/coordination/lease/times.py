"""The times of a lease, and the check that they work together."""

import math
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache

from interlock.errors import ConfigurationError

Duration = float | timedelta

_SHORTEST, _LONGEST = 0.5, 86400.0


def seconds(duration: Duration) -> float:
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if isinstance(duration, int | float):
        return float(duration)
    raise ConfigurationError(f"{duration!r} is not a length of time: use a number of seconds, or a timedelta.")


def checked_timeout(timeout: Duration | None) -> float | None:
    if timeout is None:
        return None
    value = seconds(timeout)
    if math.isnan(value) or value < 0:
        raise ConfigurationError(f"A timeout of {value:g} s cannot work: use 0 or more, or None to wait without limit.")
    return value


@dataclass(frozen=True, slots=True, eq=False)
class LeaseTiming:
    """The times of a lease, all in seconds. Leases with the same times mostly share one object, which groups the
    renewals of thousands of leases.

    A holder renews every `renew_every`, and a request that is not answered within `request_timeout` counts as missed. A
    holder stops trusting its lease `margin` before the store could grant the lease to another holder. The margin leaves
    time to notify the holder, and covers the drift of the two clocks.
    """

    ttl: float
    renew_every: float
    request_timeout: float
    margin: float

    @classmethod
    def of(
        cls, ttl: Duration, renew_every: Duration | None = None, request_timeout: float | None = None
    ) -> "LeaseTiming":
        """Make the times of a lease. Times that are not given follow from the ttl: three renewals fit into it, so one
        missed renewal does not cost the lease."""
        return _timing(seconds(ttl), None if renew_every is None else seconds(renew_every), request_timeout)

    @classmethod
    def _of(cls, term: float, renew_every: float | None, request_timeout: float | None) -> "LeaseTiming":
        if not _SHORTEST <= term <= _LONGEST:
            raise ConfigurationError(
                f"A lease's ttl of {term:g} s cannot work: use {_SHORTEST:g} s to {_LONGEST:g} s (a day)."
            )
        timing = cls(
            ttl=term,
            renew_every=term / 4 if renew_every is None else renew_every,
            request_timeout=term / 4 if request_timeout is None else request_timeout,
            margin=min(term / 10, 1.0),
        )
        timing._check(renew_every, request_timeout)
        return timing

    def _check(self, renew_every: float | None, request_timeout: float | None) -> None:
        """Check that the times work together. The parameters are as the user gave them; None means that the time
        follows from the ttl."""
        if not 0 < self.renew_every < math.inf or not 0 < self.request_timeout < math.inf:
            raise ConfigurationError("renew_every or request_timeout cannot work: use a number of seconds above 0.")
        needed = 2 * self.renew_every + self.request_timeout + self.margin
        if needed > self.ttl:
            raise ConfigurationError(
                f"A ttl of {self.ttl:g} s is too short for renewals every {self.renew_every:g} s and a request_timeout "
                f"of {self.request_timeout:g} s: two renewals, one timeout and a margin of {self.margin:g} s "
                f"need {needed:g} s, so one missed renewal would cost the lease: "
                f"{_mended(renew_every, request_timeout)}."
            )


def _mended(renew_every: float | None, request_timeout: float | None) -> str:
    """Return a proposal of times that would work. The margin (up to a second) and the times not given grow with the
    ttl."""
    given = {"renew_every": renew_every, "request_timeout": request_timeout}
    smaller = f"a smaller {' or '.join(name for name, value in given.items() if value is not None)}"
    fixed = 2 * (renew_every or 0) + (request_timeout or 0)
    left = 1 - (renew_every is None) * 2 / 4 - (request_timeout is None) / 4
    enough = math.ceil(min(fixed / (left - 0.1), (fixed + 1) / left) * 10) / 10
    return f"use a ttl of at least {enough:g} s, or {smaller}" if enough <= _LONGEST else f"use {smaller}"


_timing = lru_cache(maxsize=1000)(LeaseTiming._of)
