"""The result of a check: a verdict, one sentence, and what to do about it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from interlock.errors import EX_CONFIG

Figures = Mapping[str, Any]


class Verdict(StrEnum):
    """PROBLEM: do not trust this database yet. WARNING: it works, but without a property that users rely on."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """`remedy` says what to do next, if anything; `facts` are the facts behind the verdict, for programs."""

    check: str
    verdict: Verdict
    says: str
    remedy: str = ""
    facts: Figures = field(default_factory=dict)
    exit_status: int = EX_CONFIG


def ok(check: str, says: str, facts: Figures | None = None) -> Finding:
    return Finding(check, Verdict.OK, says, facts=facts or {})


def warning(check: str, says: str, remedy: str = "", facts: Figures | None = None) -> Finding:
    return Finding(check, Verdict.WARNING, says, remedy, facts or {})


def problem(
    check: str, says: str, remedy: str = "", facts: Figures | None = None, *, exit_status: int = EX_CONFIG
) -> Finding:
    return Finding(check, Verdict.PROBLEM, says, remedy, facts or {}, exit_status)


def worst(findings: Iterable[Finding]) -> Verdict:
    found = {finding.verdict for finding in findings}
    return next((verdict for verdict in reversed(Verdict) if verdict in found), Verdict.OK)


def exit_status(findings: Iterable[Finding]) -> int:
    """Returns the exit status of the first problem, which has to be corrected first; 0 if there is no problem."""
    return next((finding.exit_status for finding in findings if finding.verdict is Verdict.PROBLEM), 0)


def shown(seconds: float) -> str:
    """Returns the duration as words for a sentence."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 120 else f"{seconds / 60:.0f} min"
