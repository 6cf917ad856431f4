"""Disk syncs per cycle of acquire and release, by PostgreSQL's own count."""

import uuid

from psycopg import sql

from benchmarks.bench import Bench, Contender
from benchmarks.programs import Load
from benchmarks.report.section import Section, Verdict, counted
from benchmarks.servers.postgres import execute, settled_wal_syncs

WORKERS = (1, 8, 64)
LIMITS = (1.01, 0.15, 0.03)
CYCLES = 2_048
REFUSALS = 1_000
REPEATS = 3

Figures = dict[str, float]


def measure(bench: Bench) -> Figures:
    """Syncs per cycle, by the number of workers, and per acquire that failed."""
    bench.log("fsyncs")
    url = bench.postgres.make_database("fsyncs")
    with bench.loads(Contender("interlock_counted", lambda _: url)) as [load]:
        figures = {str(workers): _per_cycle(load, url, workers) for workers in WORKERS}
        execute(url, sql.SQL("SELECT interlock.acquire_v1('held', %s, 3600, 'another')"), uuid.uuid4())
        return figures | {"failed": min(_per_refusal(load, url) for _ in range(REPEATS))}


def _per_cycle(load: Load, url: str, workers: int) -> float:
    load.ask(workers=workers, cycles=workers)  # the first use of a name costs more
    before = settled_wal_syncs(url)
    load.ask(workers=workers, cycles=CYCLES)
    return (settled_wal_syncs(url) - before) / CYCLES


def _per_refusal(load: Load, url: str) -> float:
    """Syncs per refused acquire. The server sometimes syncs for other reasons: take the least of several."""
    before = settled_wal_syncs(url)
    load.ask(name="held", refusals=REFUSALS)
    return (settled_wal_syncs(url) - before) / REFUSALS


def judge(figures: Figures) -> Section:
    return Section(
        title="Waits for the disk",
        text=(
            "Syncs of the write-ahead log per cycle, as PostgreSQL counts them. The workers of one process share the "
            "commit of one statement; a release does not wait for the disk; an acquire that fails writes nothing."
        ),
        header=("", *(counted(workers, "worker") for workers in WORKERS), "a failed acquire"),
        rows=[("Interlock", *(f"{figures[key]:.3f}" for key in (*map(str, WORKERS), "failed")))],
        verdicts=[
            *(
                Verdict(f"fsyncs per cycle, {counted(workers, 'worker')}", figures[str(workers)], limit, "", False, 3)
                for workers, limit in zip(WORKERS, LIMITS, strict=True)
            ),
            Verdict("fsyncs per failed acquire", figures["failed"], 0, "", at_least=False, digits=3),
        ],
    )
