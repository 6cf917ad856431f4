"""Ten processes contend for one lock, and each holds it for a millisecond: the speed and fairness of hand-overs."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

from benchmarks.bench import Bench
from benchmarks.contenders import (
    ADVISORY,
    CONTENDERS,
    INTERLOCK,
    INTERLOCK_THREADS,
    KAZOO,
    REDIS_VOLATILE,
    TOOZ,
    UVLOOP,
    UVLOOP_THREADS,
)
from benchmarks.programs import Load, LoadFailed
from benchmarks.report.section import Section, Verdict
from benchmarks.rounds import ratio, take_turns

PROCESSES = 10
PARTICIPANTS = (INTERLOCK, INTERLOCK_THREADS, UVLOOP, UVLOOP_THREADS, ADVISORY, TOOZ, KAZOO, REDIS_VOLATILE)
# The first grants are ignored, because not all processes contend yet.
SETTLING = 0.2

Figures = dict[str, list[dict[str, float]]]
Stamps = list[tuple[int, int]]

_DURABLE = (
    "A hand-over is on the disk before the next holder is notified, and the server notifies it; an advisory lock is "
    "never written. One durable UPDATE and one message by the bare driver take twice as long as an advisory lock."
)


def measure(bench: Bench) -> dict[str, Any]:
    """By contender and round: hand-overs per second, p50 of the gap in ms, fairness, grants that overlapped."""
    bench.log(f"hand-over: {PROCESSES} processes")
    with ExitStack() as stack:
        turns: dict[str, Callable[[], dict[str, float]]] = {}
        for name in PARTICIPANTS:
            contender = CONTENDERS[name]
            if bench.can_measure(name, contender):
                with bench.tolerating(name):
                    loads = stack.enter_context(bench.loads(contender, PROCESSES, name="contended"))
                    turns[name] = partial(turn, loads, bench.size.seconds + 1)
        return take_turns(turns, max(2, bench.size.rounds - 2), bench.tolerating)


def turn(loads: list[Load], seconds: float) -> dict[str, float]:
    begun_at = time.monotonic()
    for load in loads:
        load.send(until=begun_at + seconds)
    stamps: list[Stamps] = [load.answer() for load in loads]
    first = int((begun_at + SETTLING) * 1e9)
    return summary([[(granted, freed) for granted, freed in of_one if granted >= first] for of_one in stamps])


def summary(stamps: list[Stamps]) -> dict[str, float]:
    """The summary of the timestamps of all processes: (granted, releasing) in nanoseconds of one clock.

    A process that acquires the lock again itself has not handed it over.
    """
    grants = sorted((granted, freed, process) for process, of_one in enumerate(stamps) for granted, freed in of_one)
    passed = [(freed, granted) for (_, freed, last), (granted, _, this) in pairwise(grants) if last != this]
    counts = [len(of_one) for of_one in stamps]
    if not passed:
        raise LoadFailed(f"no hand-over was seen among {len(grants)} grants")
    return {
        "per_second": len(passed) / (grants[-1][0] - grants[0][0]) * 1e9,
        "p50_ms": median(granted - freed for freed, granted in passed) / 1e6,
        "fairness": min(counts) / max(counts),
        "overlaps": sum(granted < freed for (_, freed, _), (granted, _, _) in pairwise(grants)),
    }


def judge(figures: Figures) -> Section:
    return Section(
        title="Hand-over of a contended lock",
        text=(
            f"{PROCESSES} processes, each holds the lock for 1 ms and wants it again at once. A process that takes it "
            "again itself has not handed it over. The gap is from the begin of a release to the next grant; fairness "
            "is the fewest grants of a process by the most. Interlock's hand-over is on the disk before the next "
            "holder is notified; among the peers only kazoo's is."
        ),
        header=("contender", "hand-overs/s", "gap p50", "fairness"),
        rows=[(name, *_row(rounds)) for name, rounds in figures.items()],
        verdicts=[
            *(
                Verdict(
                    f"hand-over p50: {ours} beside {ADVISORY}",
                    _ratio(figures, "p50_ms", ours, ADVISORY),
                    4.5,
                    at_least=False,
                    why=_DURABLE,
                )
                for ours in (INTERLOCK, UVLOOP)
            ),
            *(
                Verdict(f"hand-overs/s beside {name}", _ratio(figures, "per_second", INTERLOCK, name), target, why=why)
                for name, target, why in ((TOOZ, 1.0, _DURABLE), (KAZOO, 1.0, _DURABLE), (REDIS_VOLATILE, 30, ""))
            ),
            Verdict("fairness over 10 processes", _middle(figures, INTERLOCK, "fairness"), 0.9, unit=""),
        ],
    )


def _row(rounds: list[dict[str, float]]) -> tuple[str, str, str]:
    middle = {key: median(each[key] for each in rounds) for key in rounds[0]}
    return f"{middle['per_second']:,.0f}", f"{middle['p50_ms']:.2f} ms", f"{middle['fairness']:.2f}"


def _middle(figures: Figures, name: str, key: str) -> float | None:
    rounds = figures.get(name)
    return median(each[key] for each in rounds) if rounds else None


def _ratio(figures: Figures, key: str, name: str, peer: str) -> float | None:
    ours, theirs = figures.get(name), figures.get(peer)
    return ratio([each[key] for each in ours], [each[key] for each in theirs]) if ours and theirs else None
