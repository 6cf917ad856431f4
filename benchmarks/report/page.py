"""The page: targets first, then a table for each scenario."""

from collections.abc import Mapping, Sequence
from itertools import chain

from benchmarks.report.section import Section, Verdict

_MARK = {True: "yes", False: "**no**", None: "-"}


def page(
    sections: Sequence[Section], machine: Mapping[str, str], not_measured: Mapping[str, str], plot: str, when: str
) -> str:
    parts = [
        _opening(machine, when),
        f"![Cycles and hand-overs per second beside the peers, and how both grow]({plot})",
        "## Targets",
        "Ratios are medians over rounds in which the contenders took turns.",
        _verdicts(list(chain.from_iterable(section.verdicts for section in sections))),
        *chain.from_iterable((f"## {each.title}", each.text, table(each.header, each.rows)) for each in sections),
    ]
    if not_measured:
        rows = [(name, reason) for name, reason in sorted(not_measured.items())]
        parts += ["## Not measured", table(("contender", "reason"), rows)]
    return "\n\n".join(parts) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _opening(machine: Mapping[str, str], when: str) -> str:
    facts = "\n".join(f"- {name}: {fact}" for name, fact in machine.items())
    return f"""# Benchmarks

Written by the command below on {when}; every figure of this page is from that one run.

```sh
python -m benchmarks            # everything, in about 20 minutes; writes this page and its plot
python -m benchmarks --quick    # a rough idea in about two; this page stays as it is
python -m benchmarks cycles     # one scenario
```

It needs the development environment, and installs the peers itself: Python packages into an environment of their own
under `.benchmarks`, and, as root on Debian, redis-server, etcd-server and zookeeper. It starts every server on a free
port of the loopback address, with its data on a disk, and stops it at the end.

Clients and servers share one machine, and what it can do changes from minute to minute: ratios count, not absolute
figures. Measured on:

{facts}"""


def _verdicts(verdicts: Sequence[Verdict]) -> str:
    reasons = list(dict.fromkeys(each.why for each in verdicts if each.why))
    rows = [(each.what, each.measured_text, _target(each, reasons), _MARK[each.is_met]) for each in verdicts]
    notes = "\n".join(f"{number}. {why}" for number, why in enumerate(reasons, 1))
    return table(("what", "measured", "target", "met"), rows) + (f"\n\nWhy not more:\n\n{notes}" if notes else "")


def _target(verdict: Verdict, reasons: Sequence[str]) -> str:
    note = f" ({reasons.index(verdict.why) + 1})" if verdict.why else ""
    return verdict.target_text + note
