"""The overall result of findings."""

from itertools import product

import pytest

from interlock.doctor import Finding, Verdict, exit_status, worst
from interlock.doctor.result import shown

ALL = list(product(Verdict, repeat=3))


def of(*verdicts: Verdict) -> list[Finding]:
    return [Finding("any", verdict, "", exit_status=69 + place) for place, verdict in enumerate(verdicts)]


@pytest.mark.parametrize("verdicts", ALL)
def test_a_report_is_as_bad_as_its_worst_finding(verdicts: tuple[Verdict, ...]) -> None:
    worse_to_better = (Verdict.PROBLEM, Verdict.WARNING, Verdict.OK)
    assert worst(of(*verdicts)) == next(verdict for verdict in worse_to_better if verdict in verdicts)


@pytest.mark.parametrize("verdicts", ALL)
def test_the_status_is_that_of_the_first_problem(verdicts: tuple[Verdict, ...]) -> None:
    expected = 69 + verdicts.index(Verdict.PROBLEM) if Verdict.PROBLEM in verdicts else 0
    assert exit_status(of(*verdicts)) == expected


def test_nothing_found_is_nothing_wrong() -> None:
    assert worst([]) is Verdict.OK
    assert exit_status([]) == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0001234, "0.123 ms"), (0.25, "250 ms"), (1, "1 s"), (2.345, "2.35 s"), (119, "119 s"), (3600, "60 min")],
)
def test_durations_are_short_words(seconds: float, text: str) -> None:
    assert shown(seconds) == text
