"""The command line of the benchmarks: set up, measure, write the report."""

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
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # otherwise the servers would keep running
    CACHE.mkdir(exist_ok=True)
    whole = not arguments.quick and not arguments.scenarios
    # A partial run writes its page to the cache, not over the published one.
    results = CACHE / ("results.json" if whole else "partial.json")
    target = ROOT / "docs" / "explanation" if whole else CACHE
    if not arguments.report:
        results.write_text(json.dumps(_run(arguments), indent=1))
    write_report(json.loads(results.read_text()), target)
    _log(f"written: {target / 'benchmarks.md'}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of {', '.join(SCENARIOS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="few and short rounds, for rough results")
    parser.add_argument("--disk", type=Path, default=DEFAULT, help="where the servers keep their data (%(default)s)")
    parser.add_argument("--report", action="store_true", help="do not measure: write the report of the last run again")
    arguments = parser.parse_args()
    if unknown := set(arguments.scenarios) - set(SCENARIOS):
        parser.error(f"there is no scenario {', '.join(sorted(unknown))}")
    return arguments


def _run(arguments: argparse.Namespace) -> dict[str, Any]:
    equipment = set_up()
    scenarios = arguments.scenarios or list(SCENARIOS)
    with directory_on_disk(arguments.disk) as directory:
        bench = Bench(equipment, QUICK if arguments.quick else FULL, directory, _log)
        try:
            if "growth" in scenarios:
                _log(f"growth: a snapshot of {bench.aged.age():.0f} s begins to age")
            return {
                "when": datetime.now(UTC).date().isoformat(),
                "machine": facts(directory, bench.postgres.version),
                "figures": _measure(bench, scenarios),
                "not_measured": bench.not_measured,
            }
        finally:
            bench.close()


def _measure(bench: Bench, scenarios: list[str]) -> dict[str, Any]:
    """The results by scenario. A scenario that fails is named in the report, and the other results are kept."""
    figures: dict[str, Any] = {}
    for name in scenarios:
        with bench.tolerating(f"scenario {name}"):
            figures[name] = SCENARIOS[name].measure(bench)
    return figures


def _log(what: str) -> None:
    sys.stderr.write(f"{what}\n")


if __name__ == "__main__":
    main()
