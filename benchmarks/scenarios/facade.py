"""The synchronous façade, whose threads share statements, beside a connection for each thread."""

from contextlib import ExitStack
from functools import partial
from statistics import median

from benchmarks.bench import Bench
from benchmarks.contenders import CONTENDERS, DIRECT, INTERLOCK_THREADS
from benchmarks.programs import Load
from benchmarks.report.section import Section, counted
from benchmarks.rounds import Rounds, ratio, take_turns

THREADS = (1, 8, 64)
PARTICIPANTS = (INTERLOCK_THREADS, DIRECT)

Figures = dict[str, dict[str, Rounds]]


def measure(bench: Bench) -> Figures:
    """Cycles per second by contender and threads: one value per round."""
    figures: Figures = {name: {} for name in PARTICIPANTS}
    for threads in THREADS:
        bench.log(f"façade: {counted(threads, 'thread')}")
        with ExitStack() as stack:
            loads = {
                name: stack.enter_context(bench.loads(CONTENDERS[name], workers=threads))[0] for name in PARTICIPANTS
            }
            turns = {name: partial(_turn, load, bench.size.seconds) for name, load in loads.items()}
            for name, rounds in take_turns(turns, bench.size.rounds, bench.tolerating).items():
                figures[name][str(threads)] = rounds
    return figures


def _turn(load: Load, seconds: float) -> float:
    return float(load.ask(seconds=seconds))


def judge(figures: Figures) -> Section:
    ratios = [
        f"{ratio(figures[INTERLOCK_THREADS][str(threads)], figures[DIRECT][str(threads)]):.2f}" for threads in THREADS
    ]
    return Section(
        title="Threads: one loop thread for all, or a connection for each",
        text=(
            "Cycles per second of the synchronous surface, whose threads share one connection and its coalesced "
            "statements, beside threads that each call the same functions over a psycopg connection of their own and "
            "do nothing else: no renewal, no lost signal, no waiting."
        ),
        header=("", *(counted(threads, "thread") for threads in THREADS)),
        rows=[
            *((name, *(f"{median(of_one[str(each)]):,.0f}" for each in THREADS)) for name, of_one in figures.items()),
            ("ratio", *ratios),
        ],
    )
