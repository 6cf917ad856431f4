"""Durations on the command line."""

import click
import pytest

from interlock.cli.duration import DURATION


@pytest.mark.parametrize(
    ("given", "seconds"), [("90", 90), ("0.5", 0.5), ("30s", 30), ("500ms", 0.5), ("5m", 300), ("1.5h", 5400), (20, 20)]
)
def test_a_number_is_seconds_unless_it_has_a_unit(given: object, seconds: float) -> None:
    assert DURATION.convert(given, None, None) == seconds


@pytest.mark.parametrize("given", ["", "soon", "5 minutes", "-1", "nan", "inf", "m"])
def test_anything_else_is_refused_with_examples(given: str) -> None:
    with pytest.raises(click.BadParameter, match="use seconds"):
        DURATION.convert(given, None, None)
