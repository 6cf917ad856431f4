"""Contenders take turns in rounds, so that a noisy minute hits all of them; medians and ratios come from that."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from statistics import median
from typing import TypeVar

Rounds = list[float]
T = TypeVar("T")


def take_turns(
    contenders: Mapping[str, Callable[[], T]], rounds: int, excusing: Callable[[str], AbstractContextManager[None]]
) -> dict[str, list[T]]:
    """One result for each contender and round. Each round begins with another contender.

    `excusing` is entered with a contender's name for each of its turns; one that fails is out.
    """
    results: dict[str, list[T]] = {name: [] for name in contenders}
    order = list(contenders)
    for done in range(rounds):
        for name in order:
            with excusing(name):
                results[name].append(contenders[name]())
        order = [name for name in order[1:] + order[:1] if len(results[name]) > done]
    return {name: results[name] for name in contenders if name in order}


def ratio(ours: Rounds, theirs: Rounds) -> float:
    """The median of the rounds' ratios: two figures of one round saw the same machine."""
    return median(our / their for our, their in zip(ours, theirs, strict=True))


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values are."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
