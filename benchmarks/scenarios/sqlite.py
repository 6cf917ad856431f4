"""Eight processes on one SQLite file that acquire and release as fast as they can: the spread and the worst cycle."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import itemgetter
from statistics import median
from typing import Any

from benchmarks.bench import Bench, Contender
from benchmarks.programs import Load
from benchmarks.report.section import Section, Verdict
from benchmarks.rounds import take_turns

PROCESSES = 8
OWN, ONE = "Interlock, a name for each", "Interlock, one name for all"
RAW = "sqlite3, its own busy handler"

BYSTANDER = Contender("disk_bystander", lambda bench: f"{bench.directory}/bystander")

Figures = dict[str, list[dict[str, float]]]


def _file(name: str) -> Contender:
    return Contender(
        "raw_sqlite" if name == RAW else "interlock_steady",
        lambda bench: f"sqlite:///{bench.directory}/{'raw' if name == RAW else 'leases'}.db",
    )


def measure(bench: Bench) -> dict[str, Any]:
    """By contender and round: cycles per second, the least and the most of one process, the worst cycle in ms, and the
    milliseconds of it in which a process that does not use the file was delayed too."""
    bench.log(f"sqlite: {PROCESSES} processes")
    with ExitStack() as stack:
        (bystander,) = stack.enter_context(bench.loads(BYSTANDER))
        turns = {
            name: partial(_turn, stack.enter_context(_processes(bench, name)), bystander, bench.size.seconds)
            for name in (OWN, ONE, RAW)
        }
        return take_turns(turns, bench.size.rounds, bench.tolerating)


@contextmanager
def _processes(bench: Bench, contender: str) -> Iterator[list[Load]]:
    with ExitStack() as stack:
        names = ["one"] * PROCESSES if contender == ONE else [f"own {number}" for number in range(PROCESSES)]
        yield [stack.enter_context(bench.loads(_file(contender), name=name))[0] for name in names]


def _turn(loads: list[Load], bystander: Load, seconds: float) -> dict[str, float]:
    until = time.monotonic() + seconds
    for load in (*loads, bystander):
        load.send(until=until)
    tallies = [load.answer() for load in loads]
    counts = [tally["count"] for tally in tallies]
    worst = max(tallies, key=itemgetter("worst"))
    return {
        "per_second": sum(counts) / seconds,
        "least": min(counts),
        "most": max(counts),
        "worst": worst["worst"] * 1000,
        "bystander": _held_up(bystander.answer(), worst["begun_at"], worst["begun_at"] + worst["worst"]) * 1000,
    }


def _held_up(spells: list[tuple[float, float]], begun_at: float, ended_at: float) -> float:
    """The longest of the delays that overlap the given time."""
    return max((end - begin for begin, end in spells if begin < ended_at and end > begun_at), default=0.0)


def judge(figures: Figures) -> Section:
    eight = f"SQLite, {PROCESSES} processes"
    verdicts = [
        verdict
        for name in (OWN, ONE)
        if name in figures
        for verdict in (
            Verdict(f"{eight}: worst cycle, {name}", _worst(figures[name])["worst"], 100, "ms", False, 0),
            Verdict(f"{eight}: most beside least, {name}", _spread(figures[name]), 2, at_least=False),
        )
    ]
    return Section(
        title="Several processes on one SQLite file",
        text=(
            f"{PROCESSES} processes. Every grant is on the disk before it is answered. *sqlite3* is plain SQLite "
            "with synchronous=FULL: an `UPDATE` that takes a row and one that frees it, both on the disk. It "
            "does more cycles, because the last writer mostly writes again and no process has to be woken; that "
            "is also why others starve. The spread is the median of the rounds. Judged is the worst cycle of all "
            "rounds. Beside it is the delay meanwhile of a *bystander*, which only syncs another file on the "
            "same disk, because a machine or a disk that stops for a moment delays every process; and the median "
            "of the rounds' worst ones."
        ),
        header=(
            "contender",
            "cycles/s",
            "of one process, least to most",
            "spread",
            "worst cycle",
            "a bystander meanwhile",
            "worst of a round",
        ),
        rows=[
            (
                name,
                f"{median(figure['per_second'] for figure in rounds):,.0f}",
                f"{min(figure['least'] for figure in rounds):,.0f} to {max(figure['most'] for figure in rounds):,.0f}",
                f"{_spread(rounds):.2f} \N{MULTIPLICATION SIGN}",
                f"{_worst(rounds)['worst']:,.0f} ms",
                f"{_worst(rounds)['bystander']:,.0f} ms",
                f"{median(figure['worst'] for figure in rounds):,.0f} ms",
            )
            for name, rounds in figures.items()
        ],
        verdicts=verdicts,
    )


def _worst(rounds: list[dict[str, float]]) -> dict[str, float]:
    return max(rounds, key=itemgetter("worst"))


def _spread(rounds: list[dict[str, float]]) -> float:
    return median(figure["most"] / max(figure["least"], 1) for figure in rounds)
