"""Writes the page and the plot from the results."""

from pathlib import Path
from typing import Any

from benchmarks.report.page import page
from benchmarks.report.plot import plot
from benchmarks.scenarios import SCENARIOS


def write_report(results: dict[str, Any], directory: Path) -> None:
    """Write both files to `directory`, over existing ones."""
    figures = results["figures"]
    sections = [SCENARIOS[name].judge(figures[name]) for name in figures]
    (directory / "benchmarks.svg").write_text(plot(figures))
    text = page(sections, results["machine"], results["not_measured"], "benchmarks.svg", results["when"])
    (directory / "benchmarks.md").write_text(text)
