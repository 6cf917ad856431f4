"""The same transactions with and without a feature: their ratio is the cost of the feature."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from benchmarks.bench import Bench, Contender
from benchmarks.programs import Load
from benchmarks.report.section import Section, Verdict
from benchmarks.rounds import Rounds, ratio, take_turns

Figures = dict[str, dict[str, Rounds]]

_SHORTER = 4
_MORE = 2
"""Factor for the number of rounds: differences of a few per cent are measured, and rounds differ by ten per cent."""


@dataclass(frozen=True)
class Pair:
    """`program` is a load whose orders have the entry `flag`, which switches the feature on or off."""

    program: str
    flag: str
    with_it: str
    without: str

    def measure(self, bench: Bench, **settings: Any) -> dict[str, Rounds]:
        """Transactions per second, with and without the feature: one value per round."""
        with bench.loads(Contender(self.program, lambda bench: bench.database), **settings) as [load]:
            turns = {kind: partial(self._turn, load, kind, bench.size.seconds / _SHORTER) for kind in self._kinds}
            return take_turns(turns, bench.size.rounds * _MORE, bench.tolerating)

    def judge(
        self,
        figures: Figures,
        *,
        title: str,
        text: str,
        settings: str,
        promise: str,
        targets: Mapping[str, float],
        why: str,
    ) -> Section:
        """`targets` are by the end of the settings' names."""
        ratios = {name: ratio(of_one[self.with_it], of_one[self.without]) for name, of_one in figures.items()}
        return Section(
            title=title,
            text=text,
            header=(settings, *self._kinds, "ratio"),
            rows=[(name, *self._medians(of_one), f"{ratios[name]:.2f}") for name, of_one in figures.items()],
            verdicts=[
                Verdict(f"{promise}: {name}", ratios[name], target, why=why)
                for name in figures
                for end, target in targets.items()
                if name.endswith(end)
            ],
        )

    @property
    def _kinds(self) -> tuple[str, str]:
        return self.with_it, self.without

    def _turn(self, load: Load, kind: str, seconds: float) -> float:
        return float(load.ask(**{self.flag: kind == self.with_it}, seconds=seconds))

    def _medians(self, of_one: Mapping[str, Rounds]) -> list[str]:
        return [f"{median(of_one[kind]):,.0f}" for kind in self._kinds]
