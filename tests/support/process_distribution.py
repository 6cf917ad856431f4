"""The distribution of tests over the processes of pytest-xdist, and their order.

Tests are given out one by one, so that nobody is left with a pile of long ones. Those of a file that shares something,
a server mostly, stay together: it is made once, and not by each process.
"""

from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

from support.tiers import patience

_SHARES = 'scope="module"'


class OneByOne(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if _shares(self.config.rootpath / file) else nodeid


@cache
def _shares(file: Path) -> bool:
    return _SHARES in file.read_text()


def spread(items: list[pytest.Item]) -> None:
    """Acceptance tests wait a lot and start processes: each among others, so that some wait while some compute. Those
    that may take longest begin first, and all of them well before the end, where nothing is left to fill the waits."""
    long = sorted((item for item in items if "acceptance" in item.path.parts), key=patience, reverse=True)
    others = [item for item in items if "acceptance" not in item.path.parts]
    step = len(others) * 0.75 / max(len(long), 1)
    places = [(number * step, item) for number, item in enumerate(long)] + list(enumerate(others))
    items[:] = [item for _, item in sorted(places, key=lambda place: place[0])]
