"""Two tiers of tests. The quick one has every guarantee once; `exhaustive` marks the rest.

A test is exhaustive if it shows a guarantee over again: for one more driver, isolation level or event loop, for a
mutant, at each function or step, in a long race or a kill loop. `--all` runs both tiers, `--share K/N` the K-th of N
shares of the exhaustive one: the shares are equal in number, and together they are the whole tier.
"""

import re
import zlib
from collections.abc import Iterable, Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("tiers")
    group.addoption("--all", action="store_true", help="run the exhaustive tests too")
    group.addoption("--share", metavar="K/N", help="run only exhaustive tests: the K-th of N shares of them")


def heading(config: pytest.Config) -> str:
    if share := config.getoption("--share"):
        return f"tier: share {share} of the exhaustive tests"
    return "tier: quick and exhaustive" if config.getoption("--all") else "tier: quick (--all: the exhaustive tests too)"


def select(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all"):
        return
    wanted = _share(config.getoption("--share"), items) if config.getoption("--share") else _quick(items)
    config.hook.pytest_deselected(items=[item for item in items if item not in wanted])
    items[:] = [item for item in items if item in wanted]


def first_quick(values: Iterable[T], quick: int = 1) -> list[T]:
    """For `parametrize`: the first ones are of the quick tier, the others exhaustive."""
    known = list(values)
    return known[:quick] + [_exhaustive(value) for value in known[quick:]]


def only_quick(values: Iterable[T], *quick: T) -> list[T]:
    """The same with those that are named."""
    return [value if value in quick else _exhaustive(value) for value in values]


def _exhaustive(value: T) -> T:
    """Pytest takes a parameter in place of the value, which its types do not tell."""
    return pytest.param(value, marks=pytest.mark.exhaustive)  # type: ignore[return-value]


def _quick(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    return {item for item in items if not _is_exhaustive(item)}


def _share(share: str, items: Sequence[pytest.Item]) -> set[pytest.Item]:
    numbers = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", share)
    if not numbers or int(numbers[1]) > int(numbers[2]):
        raise pytest.UsageError(f"--share {share}: it has to look like 2/5.")
    place, shares = int(numbers[1]), int(numbers[2])
    exhaustive = sorted(filter(_is_exhaustive, items), key=lambda item: zlib.crc32(item.nodeid.encode()))
    return set(exhaustive[place - 1 :: shares])


def _is_exhaustive(item: pytest.Item) -> bool:
    return item.get_closest_marker("exhaustive") is not None
