"""Ten processes contend for three slots, and each holds one for a millisecond: a semaphore under contention."""

import time
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any

from benchmarks.bench import Bench
from benchmarks.contenders import CONTENDERS, INTERLOCK, KAZOO
from benchmarks.programs import Load, LoadFailed
from benchmarks.report.section import Section, Verdict
from benchmarks.rounds import ratio, take_turns
from benchmarks.scenarios.handover import PROCESSES, SETTLING, Figures, Stamps

SLOTS = 3


def measure(bench: Bench) -> dict[str, Any]:
    """By contender and round: grants per second, fairness, the most holders at once."""
    bench.log(f"slots: {PROCESSES} processes, {SLOTS} slots")
    with ExitStack() as stack:
        turns = {}
        for name in (INTERLOCK, KAZOO):
            contender = CONTENDERS[name]
            if bench.can_measure(name, contender):
                with bench.tolerating(name):
                    loads = stack.enter_context(bench.loads(contender, PROCESSES, name="slots", slots=SLOTS))
                    turns[name] = partial(_turn, loads, bench.size.seconds + 1)
        return take_turns(turns, max(2, bench.size.rounds - 2), bench.tolerating)


def _turn(loads: list[Load], seconds: float) -> dict[str, float]:
    begun_at = time.monotonic()
    for load in loads:
        load.send(until=begun_at + seconds)
    stamps: list[Stamps] = [load.answer() for load in loads]
    first = int((begun_at + SETTLING) * 1e9)
    return summary([[(granted, freed) for granted, freed in of_one if granted >= first] for of_one in stamps])


def summary(stamps: list[Stamps]) -> dict[str, float]:
    """The summary of the timestamps of all processes: (granted, releasing) in nanoseconds of one clock."""
    grants = [grant for of_one in stamps for grant in of_one]
    counts = [len(of_one) for of_one in stamps]
    if len(grants) < 2:
        raise LoadFailed(f"only {len(grants)} grants were seen")
    took = max(granted for granted, _ in grants) - min(granted for granted, _ in grants)
    return {
        "per_second": len(grants) / took * 1e9,
        "fairness": min(counts) / max(counts),
        "at_once": most_at_once(grants),
    }


def most_at_once(grants: Stamps) -> int:
    level = most = 0
    for _, step in sorted([(at, 1) for at, _ in grants] + [(at, -1) for _, at in grants]):
        level += step
        most = max(most, level)
    return most


def judge(figures: Figures) -> Section:
    ours = figures.get(INTERLOCK)
    theirs = figures.get(KAZOO)
    beside = (
        ratio([each["per_second"] for each in ours], [each["per_second"] for each in theirs])
        if ours and theirs
        else None
    )
    return Section(
        title="A semaphore",
        text=(
            f"{PROCESSES} processes want one of {SLOTS} slots, hold it for 1 ms and want one again at once. Fairness "
            "is the fewest grants of a process by the most; “at once” is the most holders at the same moment."
        ),
        header=("contender", "grants/s", "fairness", "at once"),
        rows=[(name, *_row(rounds)) for name, rounds in figures.items()],
        verdicts=[
            Verdict(f"semaphore, grants/s beside {KAZOO}", beside, 1),
            Verdict(
                "semaphore, fairness over 10 processes",
                median(each["fairness"] for each in ours) if ours else None,
                0.5,
                unit="",
            ),
            Verdict(
                f"semaphore of {SLOTS}, holders at once",
                max(each["at_once"] for each in ours) if ours else None,
                SLOTS,
                unit="",
                at_least=False,
                digits=0,
            ),
        ],
    )


def _row(rounds: list[dict[str, float]]) -> tuple[str, str, str]:
    middle = {key: median(each[key] for each in rounds) for key in rounds[0]}
    return f"{middle['per_second']:,.0f}", f"{middle['fairness']:.2f}", f"{max(each['at_once'] for each in rounds):.0f}"
