"""Acquire and release on an engine that speaks DynamoDB's protocol, beside the lock library for it."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any

from benchmarks.bench import Bench
from benchmarks.contenders import CONTENDERS, DYNAMODB_LOCK, INTERLOCK_DYNAMODB, INTERLOCK_DYNAMODB_THREADS
from benchmarks.programs import Load
from benchmarks.report.section import Section, Verdict, counted
from benchmarks.rounds import Rounds, ratio, take_turns

WORKERS = (1, 8)
PARTICIPANTS = (INTERLOCK_DYNAMODB, INTERLOCK_DYNAMODB_THREADS, DYNAMODB_LOCK)

Figures = dict[str, dict[str, Rounds]]


def measure(bench: Bench) -> dict[str, Any]:
    """Cycles per second by contender and workers: one value per round."""
    figures: Figures = {}
    for workers in WORKERS:
        bench.log(f"DynamoDB: {counted(workers, 'worker')}")
        with ExitStack() as stack:
            turns: dict[str, Callable[[], float]] = {}
            for name in PARTICIPANTS:
                if bench.can_measure(name, CONTENDERS[name]):
                    with bench.tolerating(name):
                        [load] = stack.enter_context(bench.loads(CONTENDERS[name], workers=workers))
                        turns[name] = partial(_turn, load, bench.size.seconds)
            for name, rounds in take_turns(turns, bench.size.rounds, bench.tolerating).items():
                figures.setdefault(name, {})[str(workers)] = rounds
    return figures


def _turn(load: Load, seconds: float) -> float:
    return float(load.ask(seconds=seconds))


def judge(figures: Figures) -> Section:
    return Section(
        title="Acquire and release on DynamoDB",
        text=(
            "Cycles per second of one client process, with 1 and 8 workers, each on its own name, on *dynalite*: an "
            "engine in memory on the same machine. On AWS the network counts for more, and the requests of a cycle "
            "for what is left: Interlock makes two writes, python-dynamodb-lock a read and two writes."
        ),
        header=("contender", *(counted(workers, "worker") for workers in WORKERS)),
        rows=[(name, *(_rate(figures[name], workers) for workers in WORKERS)) for name in figures],
        verdicts=[
            Verdict(
                f"cycles/s on DynamoDB, {counted(workers, 'worker')}: {INTERLOCK_DYNAMODB} beside {DYNAMODB_LOCK}",
                _ratio(figures, workers),
                1.0,
            )
            for workers in WORKERS
        ],
    )


def _rate(of_one: dict[str, Rounds], workers: int) -> str:
    rounds = of_one.get(str(workers))
    return f"{median(rounds):,.0f}" if rounds else "-"


def _ratio(figures: Figures, workers: int) -> float | None:
    ours, theirs = (figures.get(name, {}).get(str(workers)) for name in (INTERLOCK_DYNAMODB, DYNAMODB_LOCK))
    return ratio(ours, theirs) if ours and theirs else None
