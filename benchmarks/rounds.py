"""Rounds in which contenders take turns, so that a noisy minute affects all of them; medians and ratios of rounds."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from statistics import median
from typing import TypeVar

Rounds = list[float]
T = TypeVar("T")


def take_turns(
    contenders: Mapping[str, Callable[[], T]], rounds: int, tolerating: Callable[[str], AbstractContextManager[None]]
) -> dict[str, list[T]]:
    """One result for each contender and round. Each round starts with another contender.

    `tolerating` is entered with a contender's name for each of its turns; a contender that fails takes no more turns.
    """
    results: dict[str, list[T]] = {name: [] for name in contenders}
    order = list(contenders)
    for done in range(rounds):
        for name in order:
            with tolerating(name):
                results[name].append(contenders[name]())
        order = [name for name in order[1:] + order[:1] if len(results[name]) > done]
    return {name: results[name] for name in contenders if name in order}


def ratio(ours: Rounds, theirs: Rounds) -> float:
    """The median of the rounds' ratios: both values of a round were measured under the same conditions."""
    return median(our / their for our, their in zip(ours, theirs, strict=True))


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values are."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
