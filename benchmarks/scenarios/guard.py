"""The cost of the guard: transactions of one or a few INSERTs, with and without it."""

from itertools import product

from benchmarks.bench import Bench
from benchmarks.pairs import Figures, Pair
from benchmarks.report.section import Section

DRIVERS = ("asyncpg", "psycopg")
WRITERS = (1, 8)
INSERTS = (1, 4, 10)
GUARD = Pair("guarded_writes", "guarded", "guarded", "unguarded")


def measure(bench: Bench) -> Figures:
    """The figures by driver, number of writers and number of INSERTs."""
    figures = {}
    for driver, writers, inserts in product(DRIVERS, WRITERS, INSERTS):
        settings = f"{driver}, writers: {writers}, INSERTs: {inserts}"
        bench.log(f"guard: {settings}")
        figures[settings] = GUARD.measure(bench, driver=driver, workers=writers, inserts=inserts)
    return figures


def judge(figures: Figures) -> Section:
    return GUARD.judge(
        figures,
        title="Guarded writes",
        text=(
            "Transactions per second, committed durably, each statement a round trip of its own. All writers of a run "
            "are guarded by the same lease, which is the hardest case: they share one row."
        ),
        settings="driver, writers, INSERTs in a transaction",
        promise="guarded writes beside unguarded ones",
        targets={"INSERTs: 1": 0.5, "INSERTs: 10": 0.75},
        why="A guard is one more statement, and so one more round trip, in each transaction.",
    )
