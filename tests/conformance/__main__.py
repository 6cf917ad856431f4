"""The command: runs the suite and writes what it showed into docs/reference/stores.md.

    python -m tests.conformance

The table stands between two comments there; the rest of the page is written by hand.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "stores.md"
BEGIN, END = "<!-- written by python -m tests.conformance -->\n", "<!-- end -->\n"


class Line(NamedTuple):
    primitive: str
    guarantee: str


class Shown:
    """A pytest plugin that records the results of each test for each store."""

    def __init__(self) -> None:
        self.cells: dict[Line, dict[str, set[str]]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "guarantee" and (report.when == "call" or not report.passed):
                fact: Any = value
                primitive, guarantee, store, gap = fact
                cell = self.cells.setdefault(Line(primitive, guarantee), {}).setdefault(store, set())
                cell.add(gap or {"passed": "yes", "skipped": "not shown", "failed": "**no**"}[report.outcome])


def table(cells: Mapping[Line, Mapping[str, Iterable[str]]]) -> str:
    """A store has a guarantee if all of its tests show it; one test that does not show it counts."""
    stores = list(dict.fromkeys(store for row in cells.values() for store in row))
    lines = [["primitive", "guarantee", *stores], ["---"] * (2 + len(stores))]
    for line, row in sorted(cells.items()):
        lines.append([*line, *(_verdict(row.get(store, ())) for store in stores)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _verdict(seen: Iterable[str]) -> str:
    found = set(seen)
    worst = next((word for word in ("**no**", "not shown") if word in found), None)
    return worst or ", ".join(sorted(found - {"yes"})) or ("yes" if found else "-")


def put_into(page: str, table: str) -> str:
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def main() -> None:
    shown = Shown()
    suite = ROOT / "tests" / "conformance"
    others = [f"--ignore={suite / name}" for name in ("test_page.py", "drivers")]
    status = pytest.main([str(suite), *others, "-q", "--all", *sys.argv[1:]], plugins=[shown])
    PAGE.write_text(put_into(PAGE.read_text(), table(shown.cells)))
    sys.exit(status)


if __name__ == "__main__":
    main()
