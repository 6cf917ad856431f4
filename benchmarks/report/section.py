"""A scenario's part of the report: a table, and a verdict on each of its targets."""

from collections.abc import Sequence
from dataclasses import dataclass, field


def counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class Verdict:
    """One target. `measured` is None if a contender could not be measured; `why` is the reason why it is not higher."""

    what: str
    measured: float | None
    target: float
    unit: str = "\N{MULTIPLICATION SIGN}"
    at_least: bool = True
    digits: int = 2
    why: str = ""

    @property
    def is_met(self) -> bool | None:
        if self.measured is None:
            return None
        return self.measured >= self.target if self.at_least else self.measured <= self.target

    @property
    def measured_text(self) -> str:
        return "not measured" if self.measured is None else f"{self.measured:.{self.digits}f} {self.unit}".strip()

    @property
    def target_text(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.target:g} {self.unit}".strip()


@dataclass(frozen=True)
class Section:
    title: str
    text: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    verdicts: Sequence[Verdict] = field(default_factory=tuple)
