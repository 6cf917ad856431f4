"""What a claim costs: transactions that claim a name, beside those that insert it into a table with a unique index."""

from functools import partial
from itertools import product
from statistics import median

from benchmarks.bench import Bench, Contender
from benchmarks.programs import Load
from benchmarks.report.section import Section, Verdict, counted
from benchmarks.rounds import Rounds, ratio, take_turns

DRIVERS = ("asyncpg", "psycopg")
WRITERS = (1, 8)
CLAIMED, INSERTED = "claimed", "bare INSERT"
CONTENDER = Contender("claims", lambda bench: bench.database)

Figures = dict[str, dict[str, Rounds]]


def measure(bench: Bench) -> Figures:
    """Transactions per second: driver and writers → claimed or inserted → a figure for each round."""
    kinds = product(DRIVERS, WRITERS)
    return {f"{driver}, writers: {writers}": _rates(bench, driver, writers) for driver, writers in kinds}


def _rates(bench: Bench, driver: str, writers: int) -> dict[str, Rounds]:
    bench.say(f"claims: {driver}, {counted(writers, 'writer')}")
    with bench.loads(CONTENDER, driver=driver, workers=writers) as [load]:
        turns = {kind: partial(_turn, load, kind == CLAIMED, bench.size.seconds / 2) for kind in (CLAIMED, INSERTED)}
        return take_turns(turns, bench.size.rounds, bench.excusing)


def _turn(load: Load, claimed: bool, seconds: float) -> float:
    return float(load.ask(claimed=claimed, seconds=seconds))


def judge(figures: Figures) -> Section:
    ratios = {name: ratio(of_one[CLAIMED], of_one[INSERTED]) for name, of_one in figures.items()}
    return Section(
        title="Name claims",
        text=(
            "Transactions per second, committed durably, each of which makes a new name somebody's. The bare INSERT "
            "goes into a table with the same columns and the same unique index; it waits for others' transactions, and "
            "fails where a claim tells who the owner is."
        ),
        header=("driver, writers", CLAIMED, INSERTED, "ratio"),
        rows=[
            (name, *(f"{median(of_one[kind]):,.0f}" for kind in (CLAIMED, INSERTED)), f"{ratios[name]:.2f}")
            for name, of_one in figures.items()
        ],
        verdicts=[Verdict(f"claims beside bare INSERTs: {name}", ratios[name], 0.7) for name in figures],
    )
