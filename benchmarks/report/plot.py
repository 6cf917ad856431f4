"""The plot: cycles and hand-overs per second beside the peers, and what growth costs."""

from statistics import median
from typing import Any

from benchmarks.report.svg import ROW, bars, document, lines, text

WIDTH, MARGIN, NAMES = 1040, 20, 270


def plot(figures: dict[str, Any]) -> str:
    parts: list[str] = []
    y = 30.0
    for panel, key in ((_cycles, "cycles"), (_handovers, "handover"), (_growth, "growth")):
        if key in figures:
            drawn, height = panel(figures[key], y)
            parts += drawn
            y += height
    return document(WIDTH, int(y), parts)


def _cycles(figures: dict[str, dict[str, list[float]]], y: float) -> tuple[list[str], float]:
    """Three columns of bars: 1, 8 and 64 workers."""
    parts = [text(MARGIN, y, "Acquire + release cycles per second", weight="bold")]
    columns = list(dict.fromkeys(workers for of_one in figures.values() for workers in of_one))
    width = (WIDTH - NAMES - MARGIN) / max(1, len(columns))
    for place, workers in enumerate(columns):
        values = {name: median(of_one[workers]) if workers in of_one else 0 for name, of_one in figures.items()}
        title = f"{workers} worker{'s' if workers != '1' else ''}"
        parts += bars(NAMES + place * width, y + 22, width, title, values, names=place == 0)
    return parts, 22 + 40 + ROW * len(figures)


def _handovers(figures: dict[str, list[dict[str, float]]], y: float) -> tuple[list[str], float]:
    values = {name: median(each["per_second"] for each in rounds) for name, rounds in figures.items()}
    title = "Hand-overs per second of one contended lock, 10 processes"
    return bars(NAMES, y, WIDTH - NAMES - MARGIN, title, values, names=True), 40 + ROW * len(values)


def _growth(figures: dict[str, Any], y: float) -> tuple[list[str], float]:
    """Two plots side by side: over the rows in the table, and over the waiters for one name."""
    parts: list[str] = []
    width, height = (WIDTH - 2 * MARGIN) / 2 - 40, 140
    titles = {
        "rows": "Acquire p50 over the rows of the table",
        "waiters": "Hand-over p50 over the waiters for one name",
    }
    for place, (what, title) in enumerate(titles.items()):
        series = {kind: [(float(x), p50) for x, p50 in values.items()] for kind, values in figures[what].items()}
        parts += lines(MARGIN + 20 + place * (width + 60), y, width, height, title, series)
    return parts, height + 40 + 14 + 16 * 3
