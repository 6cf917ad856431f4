"""The results of tooz's own tests of the driver, as a part of docs/how-to/tooz.md.

    python -m support.tooz_page

runs the tests on both stores and writes the results to the page, between two comments; the rest of the page is written
by hand.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from support.postgres import fresh_database, make_template, running_cluster
from support.tooz_suite import Result

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "tooz.md"
BEGIN, END = "<!-- written by python -m support.tooz_page -->\n", "<!-- end -->\n"

Results = Mapping[str, Sequence[Result]]


def run_suite(url: str) -> list[Result]:
    """Run tooz's tests in a process of their own. A test without a line in the output means that the run broke off."""
    tests = str(Path(__file__).parent.parent)
    paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), tests]))
    ended = subprocess.run(
        [sys.executable, "-m", "support.tooz_suite", url],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return [Result(**json.loads(line)) for line in ended.stdout.splitlines()]


def listed(results: Results) -> str:
    counts = "; ".join(
        f"{store}: {len(of_one)} tests, {_count(of_one, 'passed')} passed, {_count(of_one, 'failed')} failed, "
        f"{_count(of_one, 'skipped')} not applicable"
        for store, of_one in results.items()
    )
    lines = [f"tooz {version('tooz')}. {counts}.\n", "| test | " + " | ".join(results) + " |"]
    lines.append("| --- " * (1 + len(results)) + "|")
    cells = {store: {result.test: _cell(result) for result in of_one} for store, of_one in results.items()}
    lines += [
        f"| `{test}` | " + " | ".join(cells[store][test] for store in results) + " |"
        for test in sorted({result.test for of_one in results.values() for result in of_one})
    ]
    return "\n".join(lines) + "\n"


def part_of(page: str) -> str:
    """The part of the page between the two comments."""
    return page.partition(BEGIN)[2].partition(END)[0].strip() + "\n"


def _count(results: Sequence[Result], outcome: str) -> int:
    return sum(result.outcome == outcome for result in results)


def _cell(result: Result) -> str:
    return {"passed": "passed", "failed": "**failed**"}.get(result.outcome) or f"not applicable: {result.reason}"


def main() -> None:
    with running_cluster() as cluster, tempfile.TemporaryDirectory() as directory:
        server = cluster.url(tcp=True)
        with fresh_database(server, make_template(server)) as url:
            results = {
                "PostgreSQL": run_suite(f"interlock+{url}?readers=3"),
                "SQLite": run_suite(f"interlock+sqlite:///{directory}/tooz.db"),
            }
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{listed(results)}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
