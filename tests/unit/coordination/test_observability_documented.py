"""docs/reference/observability.md lists the same metrics and events as the code."""

from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from interlock.coordination.events import KINDS, Event, Loss, Reason
from interlock.coordination.observation.metric_catalogue import MEASURES, Measure
from interlock.coordination.observation.metrics import Metrics
from interlock.integrations.prometheus import series_name

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "observability.md").read_text(encoding="utf-8")


def table(head: str) -> list[list[str]]:
    """Return the rows of the table with that heading in its first column."""
    lines = PAGE[PAGE.index(f"| {head} |") :].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def row(measure: Measure) -> list[str]:
    name = series_name(measure) + ("_total" if measure.kind == "counter" else "")
    label = f"`{measure.label}`" if measure.label else ""
    return [f"`{name}`", f"`interlock.{measure.name}`", measure.kind, label, measure.about]


def test_the_page_lists_every_metric_and_no_other() -> None:
    assert table("Prometheus") == [row(measure) for measure in MEASURES]


def test_the_page_lists_every_event_with_its_fields_and_no_other() -> None:
    def cells(event: type[Event]) -> list[str]:
        return [f"`{event.__name__}`", f"`{event.kind}`", ", ".join(f"`{field.name}`" for field in fields(event))]

    assert [found[:3] for found in table("event")] == [cells(event) for event in KINDS]


def test_the_page_lists_every_reason_of_a_loss() -> None:
    assert [cells[0].strip("`") for cells in table("reason of a loss")] == list(get_args(Loss))


@pytest.mark.parametrize("word", ["acquired", *get_args(Reason), *Metrics().renewal_rounds])
def test_the_page_explains_every_outcome(word: str) -> None:
    assert f"`{word}`" in PAGE
