"""What is measured: each module measures (`measure`: plain figures, kept as JSON) and says what they mean (`judge`)."""

from collections.abc import Mapping
from typing import Any, Protocol

from benchmarks.bench import Bench
from benchmarks.report.section import Section
from benchmarks.scenarios import (
    claims,
    cycles,
    dynamodb,
    election,
    facade,
    fsyncs,
    growth,
    guard,
    handover,
    instances,
    orchestrations,
    renewal,
    slots,
    sqlite,
    takeover,
)


class Scenario(Protocol):
    def measure(self, bench: Bench) -> Any: ...

    def judge(self, figures: Any) -> Section: ...


# Growth comes last: its old snapshot ages meanwhile.
SCENARIOS: Mapping[str, Scenario] = {
    "cycles": cycles,
    "fsyncs": fsyncs,
    "facade": facade,
    "handover": handover,
    "slots": slots,
    "election": election,
    "takeover": takeover,
    "renewal": renewal,
    "guard": guard,
    "claims": claims,
    "orchestrations": orchestrations,
    "instances": instances,
    "sqlite": sqlite,
    "dynamodb": dynamodb,
    "growth": growth,
}
