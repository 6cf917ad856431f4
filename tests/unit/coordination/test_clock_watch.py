"""Steps of the store's clock are detected; drift and slow answers are not mistaken for them."""

import pytest

from interlock.coordination.engine.clock_watch import ClockWatch


def read(watch: ClockWatch, at: float, *, ahead: float, out: float = 0.01, back: float = 0.01) -> float:
    """A reading requested at `at` from a clock that is `ahead`: `out` seconds for the request, `back` for the reply."""
    return watch.stepped_by(at + out + ahead, at, at + out + back)


def test_the_first_reading_reports_no_step() -> None:
    assert read(ClockWatch(), 100, ahead=1e9) == 0


@pytest.mark.parametrize("step", [5.0, -5.0, 3600.0, -3600.0, 0.1, -0.1])
def test_a_step_is_measured_less_the_time_of_the_round_trip(step: float) -> None:
    watch = ClockWatch()
    read(watch, 100, ahead=1e9)
    seen = read(watch, 110, ahead=1e9 + step)
    assert abs(seen) <= abs(step)
    assert abs(seen) >= abs(step) - 0.03
    assert seen * step > 0


@pytest.mark.parametrize(("out", "back"), [(0.0, 3.0), (3.0, 0.0), (1.5, 1.5), (0.0, 0.0)])
def test_a_slow_answer_is_no_step(out: float, back: float) -> None:
    watch = ClockWatch()
    read(watch, 100, ahead=7)
    assert read(watch, 110, ahead=7, out=out, back=back) == 0
    assert read(watch, 120, ahead=7) == 0


@pytest.mark.parametrize(("step", "out", "back"), [(2, 1.5, 1.5), (-2, 1.5, 1.5), (2, 0, 3), (-2, 3, 0)])
def test_a_step_that_a_slow_answer_hides_is_reported_by_the_next(step: float, out: float, back: float) -> None:
    watch = ClockWatch()
    read(watch, 100, ahead=0)
    assert read(watch, 110, ahead=step, out=out, back=back) * step >= 0
    seen = read(watch, 120, ahead=step)
    assert seen * step > 0
    assert read(watch, 130, ahead=step) == 0, "and once"


def test_a_slewed_clock_is_no_step() -> None:
    watch = ClockWatch()
    total = sum(abs(read(watch, second, ahead=second * 0.0005)) for second in range(100, 4000, 10))
    assert total == 0


def test_after_a_step_the_new_time_counts() -> None:
    watch = ClockWatch()
    read(watch, 100, ahead=0)
    assert read(watch, 110, ahead=60) > 59
    assert read(watch, 120, ahead=60) == 0
    assert read(watch, 130, ahead=0) < -59
