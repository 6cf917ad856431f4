"""The cost of Interlock's part: orchestrations of one activity, beside the bare engine with the same settings."""

from contextlib import ExitStack
from functools import partial
from statistics import median

from benchmarks.bench import Bench, Contender
from benchmarks.programs import Load
from benchmarks.report.section import Section, Verdict
from benchmarks.rounds import Rounds, ratio, take_turns

OURS, BARE = "Interlock", "duroxide alone"
PARTICIPANTS = {
    OURS: Contender("interlock_orchestrations", lambda bench: bench.database),
    BARE: Contender("bare_duroxide", lambda bench: bench.database),
}
CONCURRENCY = 8
AT_ONCE = 200

Figures = dict[str, Rounds]


def measure(bench: Bench) -> Figures:
    """Orchestrations per second by contender: one value per round."""
    bench.log("orchestrations")
    with ExitStack() as stack:
        loads = {
            name: stack.enter_context(bench.loads(contender, concurrency=CONCURRENCY))[0]
            for name, contender in PARTICIPANTS.items()
        }
        turns = {name: partial(_turn, load) for name, load in loads.items()}
        return take_turns(turns, bench.size.rounds, bench.tolerating)


def _turn(load: Load) -> float:
    return float(load.ask(count=AT_ONCE))


def judge(figures: Figures) -> Section:
    share = ratio(figures[OURS], figures[BARE])
    return Section(
        title="Orchestrations",
        text=(
            f"Orchestrations of one activity per second, {AT_ONCE} started at once, in one process that runs "
            f"{CONCURRENCY} activities at a time. Interlock also records each before it starts it, counts the attempts "
            "at its step and checks inputs and results."
        ),
        header=("", "per second"),
        rows=[*((name, f"{median(rounds):,.0f}") for name, rounds in figures.items()), ("ratio", f"{share:.2f}")],
        verdicts=[Verdict("orchestrations beside the bare engine", share, 0.8)],
    )
