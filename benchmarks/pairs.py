"""The same transactions with something and without it: what that costs is their ratio."""

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
"""Rounds than elsewhere: some per cent are looked for, and from one round to the next a machine differs by ten."""


@dataclass(frozen=True)
class Pair:
    """`program` is a load that is told each time whether to do it, by an order of the name `flag`."""

    program: str
    flag: str
    with_it: str
    without: str

    def measure(self, bench: Bench, **settings: Any) -> dict[str, Rounds]:
        """Transactions per second: with it or without → a figure for each round."""
        with bench.loads(Contender(self.program, lambda bench: bench.database), **settings) as [load]:
            turns = {kind: partial(self._turn, load, kind, bench.size.seconds / _SHORTER) for kind in self._kinds}
            return take_turns(turns, bench.size.rounds * _MORE, bench.excusing)

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
        """`targets`: for settings that end so."""
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
