"""The verdict of a release on a schema with a recorded version."""

import itertools
from typing import Any

import pytest

from interlock.errors import ConfigurationError
from interlock.gate.schema_version import Verdict, as_verdict, check_versions, compare

VERSIONS = ["1", "2", "3"]


@pytest.mark.parametrize(
    ("mine", "recorded", "since"), list(itertools.product(VERSIONS, [None, *VERSIONS], [None, *VERSIONS]))
)
def test_every_case_has_the_one_verdict_that_follows(mine: str, recorded: str | None, since: str | None) -> None:
    if recorded is None or int(recorded) < int(mine):
        expected = Verdict.BEHIND
    elif recorded == mine:
        expected = Verdict.CURRENT
    elif since is None or int(since) > int(mine):
        expected = Verdict.TOO_NEW
    else:
        expected = Verdict.NEWER
    assert compare(mine, recorded, since) is expected


@pytest.mark.parametrize(
    ("older", "newer"), [("9", "10"), ("1.9", "1.10"), ("1", "1.0.1"), ("2026.3", "2026.10"), ("1.2", "2")]
)
def test_versions_are_compared_as_numbers(older: str, newer: str) -> None:
    assert compare(newer, older, None) is Verdict.BEHIND
    assert compare(older, newer, None) is Verdict.TOO_NEW


@pytest.mark.parametrize(("one", "other"), [("1", "1.0"), ("1.2.0", "1.2"), ("01", "1"), ("0", "0.0")])
def test_trailing_zeros_do_not_make_another_version(one: str, other: str) -> None:
    assert compare(one, other, None) is Verdict.CURRENT


def test_a_version_may_be_a_number() -> None:
    assert compare(7, "7", None) is Verdict.CURRENT
    assert check_versions(7, None) == ("7", None)


@pytest.mark.parametrize("version", ["", "v1", "1.", ".1", "1..2", "1.0rc1", "abc", " 1 ", "1_0", "-1", "+1"])
def test_an_invalid_version_is_refused(version: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be a gate's version"):
        check_versions(version, None)


def test_no_version_is_allowed() -> None:
    assert check_versions(None, None) == (None, None)


@pytest.mark.parametrize(
    ("answer", "verdict"), [(True, Verdict.CURRENT), (False, Verdict.BEHIND), *((one, one) for one in Verdict)]
)
def test_a_check_may_return_a_bool_or_a_verdict(answer: Any, verdict: Verdict) -> None:
    assert as_verdict(answer) is verdict
