"""What the guard costs: transactions of one or a few INSERTs, with it and without."""

from functools import partial
from itertools import product
from statistics import median

from benchmarks.bench import Bench, Contender
from benchmarks.programs import Load
from benchmarks.report.section import Section, Verdict, counted
from benchmarks.rounds import Rounds, ratio, take_turns

DRIVERS = ("asyncpg", "psycopg")
WRITERS = (1, 8)
INSERTS = (1, 4, 10)
GUARDED, PLAIN = "guarded", "unguarded"
CONTENDER = Contender("guarded_writes", lambda bench: bench.database)

Figures = dict[str, dict[str, Rounds]]


def measure(bench: Bench) -> Figures:
    """Transactions per second: what they are like → guarded or not → a figure for each round."""
    kinds = product(DRIVERS, WRITERS, INSERTS)
    return {
        f"{driver}, writers: {writers}, INSERTs: {inserts}": _rates(bench, driver, writers, inserts)
        for driver, writers, inserts in kinds
    }


def _rates(bench: Bench, driver: str, writers: int, inserts: int) -> dict[str, Rounds]:
    bench.say(f"guard: {driver}, {counted(writers, 'writer')}, {counted(inserts, 'INSERT')}")
    with bench.loads(CONTENDER, driver=driver, workers=writers, inserts=inserts) as [load]:
        turns = {kind: partial(_turn, load, kind == GUARDED, bench.size.seconds / 2) for kind in (GUARDED, PLAIN)}
        return take_turns(turns, bench.size.rounds, bench.excusing)


def _turn(load: Load, guarded: bool, seconds: float) -> float:
    return float(load.ask(guarded=guarded, seconds=seconds))


def judge(figures: Figures) -> Section:
    ratios = {name: ratio(of_one[GUARDED], of_one[PLAIN]) for name, of_one in figures.items()}
    return Section(
        title="Guarded writes",
        text=(
            "Transactions per second, committed durably, each statement a round trip of its own. All writers of a run "
            "are guarded by the same lease, which is the hardest case: they share one row."
        ),
        header=("driver, writers, INSERTs in a transaction", GUARDED, PLAIN, "ratio"),
        rows=[
            (name, *(f"{median(of_one[kind]):,.0f}" for kind in (GUARDED, PLAIN)), f"{ratios[name]:.2f}")
            for name, of_one in figures.items()
        ],
        verdicts=[Verdict(f"guarded writes beside unguarded ones: {name}", ratios[name], 0.8) for name in figures],
    )
