"""Ten processes elect a leader, which steps down after a millisecond: the cost of a term beside a plain lease."""

from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any

from benchmarks.bench import Bench
from benchmarks.contenders import CONTENDERS, INTERLOCK
from benchmarks.report.section import Section, Verdict
from benchmarks.rounds import ratio, take_turns
from benchmarks.scenarios.handover import PROCESSES, Figures, turn

ELECTION, LEASE = "election", "lease"


def measure(bench: Bench) -> dict[str, Any]:
    """By kind and round: hand-overs per second, p50 of the gap in ms, fairness, terms that overlapped."""
    bench.log(f"election: {PROCESSES} processes")
    with ExitStack() as stack:
        turns = {}
        for kind in (ELECTION, LEASE):
            settings = {"name": f"handed over, {kind}", "terms": kind == ELECTION}
            loads = stack.enter_context(bench.loads(CONTENDERS[INTERLOCK], PROCESSES, **settings))
            turns[kind] = partial(turn, loads, bench.size.seconds + 1)
        return take_turns(turns, max(2, bench.size.rounds - 2), bench.tolerating)


def judge(figures: Figures) -> Section:
    terms, grants = figures.get(ELECTION), figures.get(LEASE)
    beside = (
        ratio([each["per_second"] for each in terms], [each["per_second"] for each in grants])
        if terms and grants
        else None
    )
    return Section(
        title="Hand-over of an election",
        text=(
            f"{PROCESSES} candidates; the leader steps down after 1 ms and stands again. The gap is from there to the "
            "begin of the next term. Beside it the same with a plain lease. The cost of a killed leader is that of a "
            "killed holder of a lease, below."
        ),
        header=("", "hand-overs/s", "gap p50", "fairness", "overlaps"),
        rows=[(kind, *_row(rounds)) for kind, rounds in figures.items()],
        verdicts=[
            Verdict("election, hand-overs/s beside a plain lease", beside, 0.8),
            Verdict(
                "election, terms that overlapped",
                sum(each["overlaps"] for each in terms) if terms else None,
                0,
                unit="",
                at_least=False,
                digits=0,
            ),
        ],
    )


def _row(rounds: list[dict[str, float]]) -> tuple[str, str, str, str]:
    middle = {key: median(each[key] for each in rounds) for key in rounds[0]}
    overlaps = sum(each["overlaps"] for each in rounds)
    return f"{middle['per_second']:,.0f}", f"{middle['p50_ms']:.2f} ms", f"{middle['fairness']:.2f}", f"{overlaps:.0f}"
