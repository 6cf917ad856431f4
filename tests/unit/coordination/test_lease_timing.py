"""The times of a lease: those that follow from the ttl, and those that cannot work."""

import math
import re
from datetime import timedelta

import pytest

from interlock.coordination.lease.times import LeaseTiming, checked_timeout, seconds
from interlock.errors import ConfigurationError

POSSIBLE = [
    LeaseTiming.of(0.5),
    LeaseTiming.of(1),
    LeaseTiming.of(30),
    LeaseTiming.of(86400),
    LeaseTiming.of(timedelta(minutes=5)),
    LeaseTiming.of(10, 3, 3),
    LeaseTiming.of(10, timedelta(seconds=1), 7),
    LeaseTiming.of(30, 0.05),
]


@pytest.mark.parametrize("timing", POSSIBLE)
def test_a_missed_renewal_is_survived(timing: LeaseTiming) -> None:
    """The first renewal is missed, which is known only after its timeout; the second comes before trust ends."""
    assert 2 * timing.renew_every + timing.request_timeout <= timing.ttl - timing.margin


@pytest.mark.parametrize("timing", POSSIBLE)
def test_trust_ends_before_the_lease_does(timing: LeaseTiming) -> None:
    assert 0 < timing.margin <= min(timing.ttl / 10, 1)


@pytest.mark.parametrize("ttl", [0.5, 1, 7, 30, 3600, 86400])
def test_times_that_are_not_given_follow_from_the_ttl(ttl: float) -> None:
    timing = LeaseTiming.of(ttl)
    assert (timing.ttl, timing.renew_every, timing.request_timeout) == (ttl, ttl / 4, ttl / 4)


@pytest.mark.parametrize("ttl", [0, -1, 0.499, 86400.1, math.inf, -math.inf, math.nan, timedelta(), timedelta(days=2)])
def test_ttls_that_cannot_work(ttl: float | timedelta) -> None:
    with pytest.raises(ConfigurationError, match="ttl"):
        LeaseTiming.of(ttl)


@pytest.mark.parametrize(
    ("ttl", "renew_every", "request_timeout"),
    [
        (10, 3.5, 2.1),
        (10, 5, None),
        (10, None, 4.1),
        (10, 0, 1),
        (10, 1, 0),
        (10, -1, 1),
        (10, 1, -1),
        (10, math.inf, 1),
        (10, 1, math.inf),
        (10, math.nan, 1),
        (10, 1, math.nan),
    ],
)
def test_times_that_cannot_work_together(ttl: float, renew_every: float | None, request_timeout: float | None) -> None:
    with pytest.raises(ConfigurationError, match=r"renew_every|renewals"):
        LeaseTiming.of(ttl, renew_every, request_timeout)


def test_the_error_names_the_times_that_do_not_fit() -> None:
    with pytest.raises(
        ConfigurationError, match=r"A ttl of 10 s .* every 4 s .* of 2.5 s: .* margin of 1 s need 11.5 s"
    ):
        LeaseTiming.of(10, 4)


@pytest.mark.parametrize(
    ("ttl", "renew_every", "request_timeout", "advice"),
    [
        (10, 3.5, 2.1, "use a ttl of at least 10.1 s, or a smaller renew_every or request_timeout"),
        (10, 4, None, "use a ttl of at least 12 s, or a smaller renew_every"),
        (5, 2, None, "use a ttl of at least 6.2 s, or a smaller renew_every"),
        (0.5, None, 1, "use a ttl of at least 2.5 s, or a smaller request_timeout"),
        (30, None, 20, "use a ttl of at least 42 s, or a smaller request_timeout"),
        (30, 1e6, None, "use a smaller renew_every"),
    ],
)
def test_the_error_names_a_ttl_that_works(
    ttl: float, renew_every: float | None, request_timeout: float | None, advice: str
) -> None:
    """Times that are not given grow with the ttl, so the ttl that works is longer than the sum of the times now."""
    with pytest.raises(ConfigurationError) as refused:
        LeaseTiming.of(ttl, renew_every, request_timeout)
    assert str(refused.value).endswith(f"would cost the lease: {advice}.")
    if named := re.search(r"at least ([0-9.]+) s", advice):
        LeaseTiming.of(float(named[1]), renew_every, request_timeout)
        with pytest.raises(ConfigurationError, match="too short"):
            LeaseTiming.of(float(named[1]) - 0.2, renew_every, request_timeout)


@pytest.mark.parametrize(("timeout", "answer"), [(None, None), (0, 0), (2.5, 2.5), (timedelta(seconds=3), 3)])
def test_timeouts(timeout: float | timedelta | None, answer: float | None) -> None:
    assert checked_timeout(timeout) == answer


@pytest.mark.parametrize("timeout", [-1, -0.001, math.nan, timedelta(microseconds=-1)])
def test_timeouts_that_cannot_work(timeout: float | timedelta) -> None:
    with pytest.raises(ConfigurationError, match="use 0 or more, or None"):
        checked_timeout(timeout)


@pytest.mark.parametrize("duration", ["5", None, object(), [1]])
def test_a_value_that_is_no_duration_is_refused(duration: object) -> None:
    with pytest.raises(ConfigurationError, match="is not a length of time"):
        seconds(duration)  # type: ignore[arg-type]
