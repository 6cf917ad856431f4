"""Contenders take turns in rounds, so that a noisy minute hits all of them; medians and ratios come from that."""

from collections.abc import Callable, Mapping
from statistics import median
from typing import TypeVar

Rounds = list[float]
T = TypeVar("T")


def take_turns(contenders: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """One result for each contender and round. Each round begins with another contender."""
    results: dict[str, list[T]] = {name: [] for name in contenders}
    order = list(contenders)
    for _ in range(rounds):
        for name in order:
            results[name].append(contenders[name]())
        order = order[1:] + order[:1]
    return results


def ratio(ours: Rounds, theirs: Rounds) -> float:
    """The median of the rounds' ratios: two figures of one round saw the same machine."""
    return median(our / their for our, their in zip(ours, theirs, strict=True))


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values are."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
