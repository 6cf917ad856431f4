"""The gate's times: a command has ended before another replica can hold the lock."""

import pytest

from interlock.errors import ConfigurationError
from interlock.gate.times import Timing

POSSIBLE = [Timing(), Timing(2, 0.05, 0.01), Timing(2, 0.5, 2), Timing(4, 1, 1), Timing(60, 15, 5), Timing(60, 0.1, 60)]


@pytest.mark.parametrize("timing", POSSIBLE)
def test_after_the_trust_there_is_time_to_end_the_command(timing: Timing) -> None:
    assert timing.trust + 2 * timing.kill_grace <= timing.ttl


@pytest.mark.parametrize("timing", POSSIBLE)
def test_one_lost_heartbeat_does_no_harm(timing: Timing) -> None:
    assert timing.heartbeat > 0
    assert 3 * timing.heartbeat < timing.trust


@pytest.mark.parametrize("timing", POSSIBLE)
def test_a_successor_waits_longer_than_a_lost_command_may_take_to_end(timing: Timing) -> None:
    assert timing.settle >= 2 * timing.kill_grace


@pytest.mark.parametrize(
    ("ttl", "check_interval", "poll"),
    [(1.9, 0.1, 0.1), (2, 0.51, 0.5), (10, 0.04, 0.5), (10, 0.5, 0), (10, 0.5, 10.1), (10, -1, 0.5), (-10, 0.5, 0.5)],
)
def test_times_that_cannot_work_together_are_refused(ttl: float, check_interval: float, poll: float) -> None:
    with pytest.raises(ConfigurationError):
        Timing(ttl, check_interval, poll)


@pytest.mark.parametrize("timing", [(float("nan"), 0.5, 0.5), (10, float("nan"), 0.5), (10, 0.5, float("nan"))])
def test_a_value_that_is_not_a_number_is_refused(timing: tuple[float, float, float]) -> None:
    with pytest.raises(ConfigurationError):
        Timing(*timing)
