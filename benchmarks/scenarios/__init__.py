"""The scenarios: each module has `measure`, which returns plain figures for JSON, and `judge`, which rates them."""

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


# Growth comes last, because its old snapshot ages during the other scenarios.
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
