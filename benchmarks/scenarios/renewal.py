"""Ten thousand leases of one process: a round that renews all of them, beside one statement per lease."""

from statistics import median
from typing import Any

from benchmarks.bench import Bench, Contender
from benchmarks.report.section import Section, Verdict
from benchmarks.rounds import ratio

LEASES = 10_000
# One by one the cost per lease is constant, so fewer leases are enough.
SINGLE = 2_000
ROUND = Contender("interlock_renewal", lambda bench: bench.database)
SINGLY = Contender("one_by_one", lambda bench: bench.database)

Figures = dict[str, Any]


def measure(bench: Bench) -> Figures:
    bench.log(f"renewal: {LEASES} leases")
    with bench.loads(SINGLY, leases=SINGLE) as [singly], bench.loads(ROUND, leases=LEASES) as [together]:
        figures: Figures = {"one_by_one_s": [], "round_s": [], "cpu_s": []}
        for _ in range(bench.size.rounds):
            # The renewal one by one ends before the next round, which begins a third of the leases' TTL after this one.
            answer = together.ask(rounds=1)
            [[seconds, cpu]] = answer["rounds"]
            figures["round_s"].append(seconds)
            figures["cpu_s"].append(cpu)
            figures["one_by_one_s"].append(float(singly.ask()) * LEASES / SINGLE)
        return {**figures, "bytes_per_lease": answer["bytes"]}


def judge(figures: Figures) -> Section:
    singly, together, cpu = (median(figures[key]) * 1e3 for key in ("one_by_one_s", "round_s", "cpu_s"))
    memory = figures["bytes_per_lease"]
    return Section(
        title=f"Renewing {LEASES:,} leases",
        text="All leases of a process are renewed together. The client's CPU is that of the event loop's thread.",
        header=("", "measured"),
        rows=[
            ("a statement for each", f"{singly:,.0f} ms"),
            ("one round", f"{together:,.1f} ms"),
            ("client's CPU for a round", f"{cpu:.1f} ms"),
            ("memory for each held lease", f"{memory:,.0f} bytes"),
        ],
        verdicts=[
            Verdict(
                "renewal round beside one by one", ratio(figures["one_by_one_s"], figures["round_s"]), 75, digits=0
            ),
            Verdict("client's CPU for a round", cpu, 15, "ms", at_least=False, digits=1),
            Verdict("memory for each held lease", memory / 1024, 2, "KB", at_least=False, digits=2),
        ],
    )
