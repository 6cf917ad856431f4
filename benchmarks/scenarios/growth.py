"""The cost of an acquire as the table and the queue grow, also with an old open snapshot."""

import time
import uuid
from statistics import median
from typing import Any

from psycopg import sql

from benchmarks.bench import Bench, Contender
from benchmarks.programs import Load
from benchmarks.report.section import Section, Verdict, counted
from benchmarks.scenarios.handover import Stamps, summary
from benchmarks.servers.postgres import execute
from benchmarks.waiting import wait_until

ACQUIRES = 300
# As many as for one waiter and the holder, so that only the queue grows.
PROCESSES = 2
_DEEPER = "An index of 5,000 entries is deeper, and the conditions of a whole run change this figure by a third."
ROWS, WAITERS = "rows", "waiters"
FLAT = ((ROWS, 1.5, ""), (WAITERS, 2.0, _DEEPER))
FRESH, AGED = "no old snapshot", "an old snapshot is open"

_FILL = """
    INSERT INTO interlock.lease (name, token)
    SELECT 'row-' || number, 0 FROM generate_series(1, %s::int) AS number ON CONFLICT DO NOTHING
"""
_ANALYZE = "VACUUM (ANALYZE) interlock.lease"
_HOLD = "SELECT token FROM interlock.acquire_v1(%s, %s, 3600, 'benchmark')"
_FREE = "SELECT interlock.release_v1(%s, %s, %s)"
_QUEUED = "SELECT count(*) FROM interlock.waiter WHERE name = %s"

P50s = dict[str, dict[str, float]]


def measure(bench: Bench) -> dict[str, Any]:
    """By rows and by waiters, with and without an old snapshot, and by their number: p50 in milliseconds."""
    fresh = _in_database(bench, bench.postgres.make_database("growth"))
    if (missing := bench.size.snapshot_age - bench.aged.age()) > 0:
        bench.log(f"growth: the old snapshot has to age {missing:.0f} s more")
        time.sleep(missing)
    age = bench.aged.age()
    aged = _in_database(bench, bench.aged.url)
    by_count = {what: {FRESH: fresh[what], AGED: aged[what]} for what in (ROWS, WAITERS)}
    return {**by_count, "age_s": age, "churn": bench.size.churn}


def _in_database(bench: Bench, url: str) -> P50s:
    return {
        WAITERS: {str(count): _with_waiters(bench, url, count) for count in bench.size.waiters},
        ROWS: {str(count): _with_rows(bench, url, count) for count in bench.size.rows},
    }


def _with_rows(bench: Bench, url: str, rows: int) -> float:
    """p50 of acquires of a name that was acquired and released very often, in a table with `rows` others."""
    bench.log(f"growth: {counted(rows, 'row')}")
    execute(url, sql.SQL(_FILL), rows)
    execute(url, sql.SQL(_ANALYZE))
    with bench.loads(Contender("interlock_latency", lambda _: url), name=f"beside-{rows}") as [load]:
        load.ask(count=bench.size.churn)
        return float(median(load.ask(count=ACQUIRES)))


def _with_waiters(bench: Bench, url: str, waiters: int) -> float:
    """p50 of the gap between a release and the next grant, with so many waiters for the same name."""
    bench.log(f"growth: {counted(waiters, 'waiter')}")
    name, grant_id = "queued for", uuid.uuid4()
    [[token]] = execute(url, sql.SQL(_HOLD), name, grant_id)
    wanting = waiters + 1  # one of them is the holder
    contender = Contender("interlock_queue", lambda _: url)
    with bench.loads(contender, PROCESSES, name=name) as loads:
        for place in range(wanting):  # alternately, so that the lease passes between processes
            loads[place % len(loads)].ask(queue=1)
        wait_until(lambda: execute(url, sql.SQL(_QUEUED), name)[0][0] == wanting, what=f"{wanting} tasks in the queue")
        execute(url, sql.SQL(_FREE), name, token, grant_id)
        time.sleep(max(2.0, bench.size.seconds))
        return summary([_stamps(load) for load in loads])["p50_ms"]


def _stamps(load: Load) -> Stamps:
    stamps: Stamps = load.ask(stop=True)
    return stamps


def judge(figures: dict[str, Any]) -> Section:
    counts = {what: list(figures[what][FRESH]) for what in (ROWS, WAITERS)}
    minutes = figures["age_s"] / 60
    return Section(
        title="Growth",
        text=(
            f"p50 of an acquire with other rows in the table, after {figures['churn']:,} cycles on the same name; and "
            "p50 from the begin of a release to the next grant while others wait for the same name. Then the same in a "
            f"database with an open snapshot that is {minutes:.0f} minutes old at the beginning."
        ),
        header=("", *(counted(int(count), what[:-1]) for what in counts for count in counts[what])),
        rows=[
            (kind, *(f"{figures[what][kind][count]:.2f} ms" for what in counts for count in counts[what]))
            for kind in (FRESH, AGED)
        ],
        verdicts=[
            Verdict(
                _line(what, kind, counts[what]),
                _growth(figures[what][kind]),
                flat,
                at_least=False,
                why=why,
            )
            for what, flat, why in FLAT
            for kind in (FRESH, AGED)
        ],
    )


def _line(what: str, kind: str, counts: list[str]) -> str:
    return f"flat from {int(counts[0]):,} to {int(counts[-1]):,} {what}, {kind}"


def _growth(p50s: dict[str, float]) -> float:
    first, *_, last = p50s.values()
    return last / first
