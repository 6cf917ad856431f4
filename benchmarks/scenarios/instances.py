"""Instances of the driver `local`: the time until one runs, the time of a list, and the cost of health checks."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bench import Bench
from benchmarks.report.section import Section, Verdict
from benchmarks.rounds import take_turns
from benchmarks.servers.bare_cluster import BareCluster
from benchmarks.servers.control_plane import ControlPlane, control_plane
from benchmarks.servers.processor import processor_seconds
from benchmarks.waiting import wait_until

OURS, BARE = "interlock instance create", "initdb and start, by hand"
SMALL = {"shared_buffers": "1MB", "max_connections": "10"}
"""The parameters of instances that only have to exist."""
AT_ONCE = 10
LISTINGS = 30
HEALTH_INTERVAL = 30

Figures = dict[str, Any]


def measure(bench: Bench) -> Figures:
    """Seconds until an instance runs, milliseconds per list, transactions and processor time per idle second."""
    directory = bench.directory / "instances"
    directory.mkdir()
    with _plane(directory / "plane") as plane:
        bench.log("instances: creation")
        bare = BareCluster(directory / "bare")
        turns = {OURS: partial(_create, plane, count()), BARE: partial(_by_hand, bare)}
        seconds = take_turns(turns, bench.size.rounds, bench.tolerating)
        bench.log(f"instances: {bench.size.instances} of them")
        alone = _idle(plane, bench.size.idle)
        _create_others(plane, bench.size.instances - bench.size.rounds)
        return {
            "seconds": seconds,
            "instances": len(_all(plane)),
            "listed": [_listed(plane) for _ in range(LISTINGS)],
            "alone": alone,
            "idle": _idle(plane, bench.size.idle),
        }


@contextmanager
def _plane(directory: Path) -> Iterator[ControlPlane]:
    with control_plane(directory, health_interval=str(HEALTH_INTERVAL), log_level="warning") as plane:
        try:
            yield plane
        finally:
            for instance in _all(plane):
                plane.delete(f"/instances/{instance['id']}")
            wait_until(lambda: not _all(plane), what="every instance is gone")


def _create(plane: ControlPlane, numbers: Iterator[int]) -> float:
    began_at = time.monotonic()
    asked = plane.post("/instances", {"name": f"measured-{next(numbers)}"})
    wait_until(lambda: plane.get(f"/instances/{asked['id']}")["state"] == "running", what="the instance runs")
    return time.monotonic() - began_at


def _by_hand(bare: BareCluster) -> float:
    began_at = time.monotonic()
    bare.make()
    bare.start()
    took = time.monotonic() - began_at
    bare.remove()
    return took


def _create_others(plane: ControlPlane, number: int) -> None:
    names = [f"other-{one}" for one in range(number)]
    for first in range(0, number, AT_ONCE):
        bodies = [{"name": name, "parameters": SMALL} for name in names[first : first + AT_ONCE]]
        plane.post("/instances/bulk-create", {"instances": bodies})
        wait_until(lambda: {one["state"] for one in _all(plane)} == {"running"}, what="the instances run")


def _all(plane: ControlPlane) -> list[dict[str, Any]]:
    instances: list[dict[str, Any]] = plane.get("/instances", limit=200)["items"]
    return instances


def _listed(plane: ControlPlane) -> float:
    began_at = time.monotonic()
    _all(plane)
    return (time.monotonic() - began_at) * 1e3


def _idle(plane: ControlPlane, seconds: float) -> dict[str, float]:
    """Transactions and processor time per second while there are no requests."""

    def used() -> dict[str, float]:
        return {
            "transactions": plane.transactions(),
            "server": processor_seconds(plane.pid),
            "database": processor_seconds(plane.postmaster),
        }

    before, began_at = used(), time.monotonic()
    time.sleep(seconds)
    after, took = used(), time.monotonic() - began_at
    return {name: (after[name] - before[name]) / took for name in before}


def judge(figures: Figures) -> Section:
    ours, bare = median(figures["seconds"][OURS]), median(figures["seconds"][BARE])
    listed, number = median(figures["listed"]), figures["instances"]
    few, many = figures["alone"], figures["idle"]
    more = many["transactions"] - few["transactions"]
    watching = (many["server"] + many["database"] - few["server"] - few["database"]) * 100
    return Section(
        title="Instances",
        text=(
            "Through the API of one `interlock up`, on the driver `local`. “Created” is from the request until it is "
            "running: a cluster is made and started, with TLS, an owner and a database of its own, and was connected "
            "to; beside it initdb with the same options and `pg_ctl start`. The 0.5 s that the target leaves out are "
            "those of the orchestration: a dozen steps, each recorded before the next one. Watching is what the health "
            f"checks of all instances cost, each every {HEALTH_INTERVAL} s, beyond what the server and its database "
            "take with few of them: transactions, of so many in all, and the share of a processor of both together."
        ),
        header=("", "measured"),
        rows=[
            ("created", f"{ours:.2f} s"),
            ("by hand", f"{bare:.2f} s"),
            (f"{number} instances listed", f"{listed:.1f} ms"),
            (
                f"{number} watched",
                f"{more:.1f} transactions/s of {many['transactions']:.1f}, {watching:.1f} % of a processor",
            ),
        ],
        verdicts=[
            Verdict(
                "create to running on local, less 0.5 s, beside initdb and start",
                (ours - 0.5) / bare,
                1.5,
                at_least=False,
            ),
            Verdict(f"{number} instances listed", listed, 50, "ms", False, 0),
        ],
    )
