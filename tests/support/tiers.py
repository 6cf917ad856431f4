"""Two tiers of tests. The quick tier shows every guarantee once; `exhaustive` marks the rest.

A test is exhaustive if it shows a guarantee over again: for one more driver, isolation level or engine, for a mutant,
at each function or step, in a long race or a kill loop. `exhaustive(beyond=2)`: the cases after the first two are.

`--all` runs both tiers, `--share K/N` the K-th of N shares of the exhaustive one, and both options together that share
of both tiers. Shares are equal in size, and together they are all tests. Each has as many long tests as any other:
these are distributed first, by their timeouts.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterable

import pytest


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--all", action="store_true", help="run the exhaustive tests too")
    group.addoption("--share", metavar="K/N", help="run only the K-th of N shares of the exhaustive tests")


def heading(config: pytest.Config) -> str:
    both, share = config.getoption("--all"), config.getoption("--share")
    if share:
        return f"tier: share {share} of {'all' if both else 'the exhaustive'} tests"
    return "tier: quick and exhaustive" if both else "tier: quick (with --all, exhaustive too)"


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    both, share = config.getoption("--all"), config.getoption("--share")
    if share:
        wanted = _share(share, items if both else _exhaustive(items))
    else:
        wanted = set(items) if both else set(items) - _exhaustive(items)
    config.hook.pytest_deselected(items=[item for item in items if item not in wanted])
    items[:] = [item for item in items if item in wanted]


def _exhaustive(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    found, seen = set(), Counter[str]()
    for item in items:
        if _is_marked_case(item):
            found.add(item)
        elif mark := item.get_closest_marker("exhaustive"):
            function = item.nodeid.partition("[")[0]
            seen[function] += 1
            if seen[function] > mark.kwargs.get("beyond", 0):
                found.add(item)
    return found


def _is_marked_case(item: pytest.Item) -> bool:
    """True if the test has a parameter that is marked, such as a parameter of a fixture for all tests that use it."""
    case = getattr(item, "callspec", None)
    return case is not None and any(mark.name == "exhaustive" for mark in case.marks)


def patience(item: pytest.Item) -> float:
    """The timeout in the test's mark, in seconds. Only long tests have one."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark else 0.0


def _share(share: str, items: Iterable[pytest.Item]) -> set[pytest.Item]:
    numbers = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", share)
    if not numbers or int(numbers[1]) > int(numbers[2]):
        raise pytest.UsageError(f"--share {share}: it has to look like 2/5.")
    place, shares = int(numbers[1]), int(numbers[2])
    dealt_out = sorted(items, key=lambda item: (-patience(item), zlib.crc32(item.nodeid.encode())))
    return set(dealt_out[place - 1 :: shares])
