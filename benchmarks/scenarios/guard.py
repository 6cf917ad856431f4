"""What the guard costs: transactions of one durable INSERT, with it and without."""

from functools import partial
from itertools import product
from statistics import median

from benchmarks.bench import Bench, Contender
from benchmarks.programs import Load
from benchmarks.report.section import Section, Verdict
from benchmarks.rounds import Rounds, ratio, take_turns

DRIVERS = ("asyncpg", "psycopg")
WRITERS = (1, 8)
GUARDED, PLAIN = "guarded", "unguarded"
CONTENDER = Contender("guarded_writes", lambda bench: bench.database)

Figures = dict[str, dict[str, Rounds]]


def measure(bench: Bench) -> Figures:
    """Transactions per second: driver and writers → guarded or not → a figure for each round."""
    return {f"{driver}, {writers}": _rates(bench, driver, writers) for driver, writers in product(DRIVERS, WRITERS)}


def _rates(bench: Bench, driver: str, writers: int) -> dict[str, Rounds]:
    bench.say(f"guard: {driver}, {writers} writers")
    with bench.loads(CONTENDER, driver=driver, workers=writers) as [load]:
        turns = {kind: partial(_turn, load, kind == GUARDED, bench.size.seconds) for kind in (GUARDED, PLAIN)}
        return take_turns(turns, bench.size.rounds, bench.excusing)


def _turn(load: Load, guarded: bool, seconds: float) -> float:
    return float(load.ask(guarded=guarded, seconds=seconds))


def judge(figures: Figures) -> Section:
    ratios = {name: ratio(of_one[GUARDED], of_one[PLAIN]) for name, of_one in figures.items()}
    return Section(
        title="Guarded writes",
        text=(
            "Transactions per second of one INSERT each, committed durably; all writers of a run are guarded by the "
            "same lease, which is the hardest case: they share one row."
        ),
        header=("driver, writers", GUARDED, PLAIN, "ratio"),
        rows=[
            (name, *(f"{median(of_one[kind]):,.0f}" for kind in (GUARDED, PLAIN)), f"{ratios[name]:.2f}")
            for name, of_one in figures.items()
        ],
        verdicts=[
            Verdict(f"guarded writes beside unguarded ones, {name} writers", ratios[name], 0.8) for name in figures
        ],
    )
