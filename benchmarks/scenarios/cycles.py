"""Acquire and release without contention: 1, 8 and 64 workers of a process, each on its own warm name."""

import os
import re
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bench import Bench
from benchmarks.contenders import (
    ASYNCPG,
    CONTENDERS,
    INTERLOCK,
    INTERLOCK_THREADS,
    INTERLOCK_THREADS_UNCONFIRMED,
    INTERLOCK_UNCONFIRMED,
    KAZOO,
    PGBENCH,
    REDIS,
    REDIS_VOLATILE,
    TOOZ,
    TOOZ_ETCD,
    UVLOOP_THREADS_UNCONFIRMED,
    UVLOOP_UNCONFIRMED,
)
from benchmarks.programs import Load, LoadFailed
from benchmarks.report.section import Section, Verdict, counted
from benchmarks.rounds import Rounds, ratio, take_turns

WORKERS = (1, 8, 64)
SCRIPT = Path(__file__).parents[1] / "sql" / "raw_cycle.sql"
PARTICIPANTS = (
    INTERLOCK,
    INTERLOCK_THREADS,
    INTERLOCK_UNCONFIRMED,
    INTERLOCK_THREADS_UNCONFIRMED,
    UVLOOP_UNCONFIRMED,
    UVLOOP_THREADS_UNCONFIRMED,
    ASYNCPG,
    TOOZ,
    TOOZ_ETCD,
    REDIS,
    REDIS_VOLATILE,
    KAZOO,
)

Figures = dict[str, dict[str, Rounds]]

_TWO_ANSWERS = (
    "The default waits for two answers. The bare driver that does nothing else reaches 0.7 of pgbench at one worker."
)
_IN_ORDER = "A later acquire of the same name is sent after the release, and this loop has no other name to acquire."

# Interlock's contender, the peer, the target ratio at 1, 8 and 64 workers (None: no target), and why it is not higher
TARGETS: tuple[tuple[str, str, tuple[float | None, ...], str], ...] = (
    (INTERLOCK, PGBENCH, (0.45, 0.7, 1.8), _TWO_ANSWERS),
    (INTERLOCK, TOOZ, (5, 15, None), _TWO_ANSWERS),
    (INTERLOCK, REDIS, (1.0, 1.8, None), _TWO_ANSWERS),
    (INTERLOCK_UNCONFIRMED, PGBENCH, (0.6, 1.0, 2.5), _IN_ORDER),
)


def measure(bench: Bench) -> dict[str, Any]:
    """Cycles per second by contender and workers: one value per round."""
    figures: Figures = {}
    for workers in WORKERS:
        bench.log(f"cycles: {counted(workers, 'worker')}")
        for name, rounds in _with_workers(bench, workers).items():
            figures.setdefault(name, {})[str(workers)] = rounds
    return figures


def _with_workers(bench: Bench, workers: int) -> dict[str, Rounds]:
    with ExitStack() as stack:
        turns: dict[str, Callable[[], float]] = {}
        for name in PARTICIPANTS:
            contender = CONTENDERS[name]
            if bench.can_measure(name, contender):
                with bench.tolerating(name):
                    [load] = stack.enter_context(bench.loads(contender, workers=workers))
                    turns[name] = partial(_turn, load, bench.size.seconds)
        if pgbench := bench.postgres.tool("pgbench"):
            turns[PGBENCH] = partial(_pgbench, pgbench, bench.database, workers, bench.size.seconds)
        else:
            bench.not_measured[PGBENCH] = "there is no pgbench on this machine; Debian: apt-get install postgresql"
        return take_turns(turns, bench.size.rounds, bench.tolerating)


def _turn(load: Load, seconds: float) -> float:
    return float(load.ask(seconds=seconds))


def _pgbench(program: str, url: str, workers: int, seconds: float) -> float:
    jobs = min(workers, os.cpu_count() or 1)
    # Whole seconds, and connecting is part of them.
    command = [program, "--no-vacuum", "--protocol=prepared", f"--file={SCRIPT}", f"--time={max(2, round(seconds))}"]
    command += [f"--client={workers}", f"--jobs={jobs}", url]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"tps = ([\d.]+) \(without", ended.stdout)
    if ended.returncode != 0 or found is None:
        raise LoadFailed((ended.stderr or ended.stdout).strip().splitlines()[-1])
    return float(found[1])


def judge(figures: Figures) -> Section:
    return Section(
        title="Acquire and release without contention",
        text=(
            "Cycles per second of one client process, with 1, 8 and 64 workers, each on its own name; the median of "
            "the rounds. Every contender but “not durable” has the acquire on the disk before it answers, except "
            "tooz-postgresql, whose locks belong to a connection and are never written. It opens that connection for "
            "each lock, with SCRAM-SHA-256 here, so most of its time is the login: measured apart, Interlock made 10 "
            "times as many cycles beside it with SCRAM, and 5.7 times as many with `trust`. *pgbench* is the limit of "
            "statements that are sent one by one: an `UPDATE` that takes a row (durable) and one that frees it "
            "(asynchronous commit, as in Interlock). *Release not confirmed* are blocks of a lease with "
            "`confirm_release=False`: their end does not wait for the database, but the next acquire of the same name "
            "does. A worker has one name here, so these blocks gain next to nothing. A release and an acquire in one "
            "statement would make 1.5 to 1.8 times as many cycles in this loop, and in no other: a loop on one's own "
            "name is no realistic workload. *On uvloop*: tasks of that event loop, or threads with `Interlock(…, "
            "loop_factory=uvloop.new_event_loop)`; all else in Python is on its own, as is everything of other "
            "scenarios."
        ),
        header=("contender", *(counted(workers, "worker") for workers in WORKERS)),
        rows=[(name, *(_rate(figures[name], workers) for workers in WORKERS)) for name in figures],
        verdicts=[verdict for target in TARGETS for verdict in _verdicts(figures, *target)],
    )


def _rate(of_one: dict[str, Rounds], workers: int) -> str:
    rounds = of_one.get(str(workers))
    return f"{median(rounds):,.0f}" if rounds else "-"


def _verdicts(figures: Figures, ours: str, theirs: str, targets: tuple[float | None, ...], why: str) -> list[Verdict]:
    return [
        Verdict(
            f"cycles/s, {counted(workers, 'worker')}: {ours} beside {theirs}",
            _ratio(figures, ours, theirs, workers),
            target,
            why=why,
        )
        for workers, target in zip(WORKERS, targets, strict=True)
        if target is not None
    ]


def _ratio(figures: Figures, ours: str, theirs: str, workers: int) -> float | None:
    our, their = (figures.get(name, {}).get(str(workers)) for name in (ours, theirs))
    return ratio(our, their) if our and their else None
