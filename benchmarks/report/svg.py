"""A minimal SVG writer: horizontal bars, and lines over a logarithmic axis."""

from collections.abc import Mapping, Sequence
from html import escape
from math import log10

OURS, OTHERS, INK, FAINT = "#0b6e4f", "#9aa5b1", "#1f2933", "#d9dee4"
PALETTE = (OURS, "#c2571a", "#2b6cb0", "#7b3fa0")
ROW = 20


def document(width: int, height: int, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="{INK}">'
    )
    return "\n".join([head, f'<rect width="{width}" height="{height}" fill="#ffffff"/>', *parts, "</svg>"]) + "\n"


def text(x: float, y: float, words: str, *, anchor: str = "start", weight: str = "normal", fill: str = INK) -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}" fill="{fill}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(words)}</text>'


def bars(x: float, y: float, width: float, title: str, values: Mapping[str, float], *, names: bool) -> list[str]:
    """One bar per name, the longest as wide as the space allows. `names`: write them to the left of `x`."""
    largest = max(values.values(), default=1)
    parts = [text(x, y, title, weight="bold")]
    for place, (name, value) in enumerate(values.items()):
        top = y + 10 + place * ROW
        length = max(1.0, value / largest * (width - 60))
        fill = OURS if name.startswith("Interlock") else OTHERS
        parts.append(f'<rect x="{x:.1f}" y="{top:.1f}" width="{length:.1f}" height="{ROW - 5}" fill="{fill}"/>')
        parts.append(text(x + length + 5, top + 12, f"{value:,.0f}"))
        if names:
            parts.append(text(x - 8, top + 12, name, anchor="end"))
    return parts


def lines(
    x: float, y: float, width: float, height: float, title: str, series: Mapping[str, Sequence[tuple[float, float]]]
) -> list[str]:
    """Each series as a line of (x, y) over a logarithmic x axis; the y axis begins at 0."""
    points = [point for each in series.values() for point in each]
    if not points:
        return []
    low, high = log10(min(px for px, _ in points)), log10(max(px for px, _ in points))
    top = max(py for _, py in points) * 1.2

    def at(point: tuple[float, float]) -> tuple[float, float]:
        px, py = point
        return x + (log10(px) - low) / ((high - low) or 1) * width, y + 14 + height * (1 - py / top)

    foot = y + 14 + height
    parts = [text(x, y, title, weight="bold")]
    parts.append(f'<path d="M{x:.1f} {y + 14:.1f}V{foot:.1f}H{x + width:.1f}" stroke="{FAINT}" fill="none"/>')
    parts += [text(at((px, 0))[0], foot + 16, f"{px:,.0f}", anchor="middle") for px in sorted({px for px, _ in points})]
    for place, ((name, values), colour) in enumerate(zip(series.items(), PALETTE, strict=False)):
        parts += _line([at(value) for value in values], colour)
        ends = [f"{py:.2f}" for _, py in values]
        parts.append(text(x, foot + 36 + place * 16, f"{name}: {' → '.join(ends)} ms", fill=colour))
    return parts


def _line(points: Sequence[tuple[float, float]], colour: str) -> list[str]:
    path = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
    dots = [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}"/>' for px, py in points]
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots]
