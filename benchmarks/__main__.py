"""The command: sets up, measures, and writes what it found."""

import argparse
import json
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.bench import FULL, QUICK, Bench
from benchmarks.equipment import CACHE, ROOT, set_up
from benchmarks.report.machine import facts
from benchmarks.report.writing import write_report
from benchmarks.scenarios import SCENARIOS
from benchmarks.servers.disk import DEFAULT, directory_on_disk


def main() -> None:
    wanted = _arguments()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # or the servers would stay
    CACHE.mkdir(exist_ok=True)
    whole = not wanted.quick and not wanted.scenarios
    # A partial run has a page too, but not the one that everybody reads.
    results = CACHE / ("results.json" if whole else "partial.json")
    target = ROOT / "docs" / "explanation" if whole else CACHE
    if not wanted.report:
        results.write_text(json.dumps(_run(wanted), indent=1))
    write_report(json.loads(results.read_text()), target)
    _say(f"written: {target / 'benchmarks.md'}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of {', '.join(SCENARIOS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="few and short rounds: a rough idea")
    parser.add_argument("--disk", type=Path, default=DEFAULT, help="where the servers keep their data (%(default)s)")
    parser.add_argument("--report", action="store_true", help="measure nothing: write the last run's report again")
    wanted = parser.parse_args()
    if unknown := set(wanted.scenarios) - set(SCENARIOS):
        parser.error(f"there is no scenario {', '.join(sorted(unknown))}")
    return wanted


def _run(wanted: argparse.Namespace) -> dict[str, Any]:
    equipment = set_up()
    scenarios = wanted.scenarios or list(SCENARIOS)
    with directory_on_disk(wanted.disk) as directory:
        bench = Bench(equipment, QUICK if wanted.quick else FULL, directory, _say)
        try:
            if "growth" in scenarios:
                _say(f"growth: a snapshot of {bench.aged.age():.0f} s begins to age")
            return {
                "when": datetime.now(UTC).date().isoformat(),
                "machine": facts(directory, bench.postgres.version),
                "figures": _measure(bench, scenarios),
                "not_measured": bench.not_measured,
            }
        finally:
            bench.close()


def _measure(bench: Bench, scenarios: list[str]) -> dict[str, Any]:
    """A scenario that breaks is named in the report too: what the others found is not lost."""
    figures: dict[str, Any] = {}
    for name in scenarios:
        with bench.excusing(f"scenario {name}"):
            figures[name] = SCENARIOS[name].measure(bench)
    return figures


def _say(what: str) -> None:
    sys.stderr.write(f"{what}\n")


if __name__ == "__main__":
    main()
