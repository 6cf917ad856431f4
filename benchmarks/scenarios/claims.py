"""The cost of a claim: transactions that claim a name, beside those that insert it into a table with a unique index."""

from itertools import product

from benchmarks.bench import Bench
from benchmarks.pairs import Figures, Pair
from benchmarks.report.section import Section, counted

DRIVERS = ("asyncpg", "psycopg")
WRITERS = (1, 8)
CLAIMS = Pair("claims", "claimed", "claimed", "bare INSERT")


def measure(bench: Bench) -> Figures:
    """The figures by driver and number of writers."""
    figures = {}
    for driver, writers in product(DRIVERS, WRITERS):
        bench.log(f"claims: {driver}, {counted(writers, 'writer')}")
        figures[f"{driver}, writers: {writers}"] = CLAIMS.measure(bench, driver=driver, workers=writers)
    return figures


def judge(figures: Figures) -> Section:
    return CLAIMS.judge(
        figures,
        title="Name claims",
        text=(
            "Transactions per second, committed durably, each of which gives a new name an owner. The bare INSERT "
            "goes into a table with the same columns and the same unique index; it waits for others' transactions, and "
            "fails where a claim names the owner."
        ),
        settings="driver, writers",
        promise="claims beside bare INSERTs",
        targets={"writers: 1": 0.7, "writers: 8": 0.6},
        why="A claim is a function that first tries a lock, so that it can tell the owner and never waits without end.",
    )
