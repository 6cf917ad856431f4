"""Time-outs: which hurt, and the statement that takes each away."""

import re
from pathlib import Path

import pytest

from interlock.doctor import Verdict
from interlock.doctor.checks.timeouts import LIMITS, timeouts
from support.doctor_facts import but, with_settings


@pytest.mark.parametrize("name", LIMITS)
def test_a_time_out_hurts_below_its_limits_and_not_at_them(name: str) -> None:
    limit = LIMITS[name]
    expected = {
        0.0: Verdict.OK,
        limit.fails_below * 0.999: Verdict.PROBLEM,
        limit.fails_below: Verdict.WARNING,
        limit.warns_below * 0.999: Verdict.WARNING,
        limit.warns_below: Verdict.OK,
        limit.warns_below * 10: Verdict.OK,
    }
    for value, verdict in expected.items():
        (finding,) = timeouts(with_settings({name: value}))
        assert finding.verdict is verdict, value
        assert verdict is Verdict.OK or finding.says.startswith(name)


@pytest.mark.parametrize("seconds", [0.01, 1.0, 10.0])
def test_deadlocks_that_are_seen_soon_enough(seconds: float) -> None:
    assert [finding.verdict for finding in timeouts(with_settings({"deadlock_timeout": seconds}))] == [Verdict.OK]


def test_deadlocks_that_are_seen_late() -> None:
    (finding,) = timeouts(with_settings({"deadlock_timeout": 10.1}))
    assert (finding.verdict, finding.facts) == (Verdict.WARNING, {"deadlock_timeout": 10.1})


def test_each_harmful_timeout_is_reported() -> None:
    findings = list(timeouts(with_settings({"statement_timeout": 5.0, "lock_timeout": 0.05, "deadlock_timeout": 60.0})))
    assert [next(iter(finding.facts)) for finding in findings] == [
        "statement_timeout",
        "lock_timeout",
        "deadlock_timeout",
    ]


def test_a_server_that_does_not_know_a_setting_has_nothing_to_say_about_it() -> None:
    settings = dict(with_settings().settings)
    del settings["transaction_timeout"]
    assert [finding.verdict for finding in timeouts(but(settings=settings))] == [Verdict.OK]


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        ("client", "Take lock_timeout out of the URL."),
        ("user", 'ALTER ROLE "web" RESET lock_timeout;'),
        ("database user", 'ALTER ROLE "web" IN DATABASE "shop" RESET lock_timeout;'),
        ("database", 'ALTER ROLE "web" IN DATABASE "shop" SET lock_timeout = 0;'),
        ("configuration file", 'ALTER ROLE "web" SET lock_timeout = 0;'),
        ("command line", 'ALTER ROLE "web" SET lock_timeout = 0;'),
    ],
)
def test_the_remedy_depends_on_the_source(source: str, remedy: str) -> None:
    (finding,) = timeouts(with_settings({"lock_timeout": 0.05}, source=source))
    assert finding.remedy == remedy


def test_the_limits_are_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "doctor.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)`[^|]*\| ([\d.]+) (s|h) \| ([\d.]+) s \|", page, re.MULTILINE)
    documented = {name: (float(warns) * {"s": 1, "h": 3600}[unit], float(fails)) for name, warns, unit, fails in rows}
    assert documented == {name: (limit.warns_below, limit.fails_below) for name, limit in LIMITS.items()}
