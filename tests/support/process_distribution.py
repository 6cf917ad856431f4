"""The distribution of tests over the processes of pytest-xdist, and their order.

Tests are distributed one by one, so that no process is left with many long ones. The tests of a file that shares a
resource, mostly a server, stay in one process, which creates the resource once.
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
    """Spread the acceptance tests, which wait a lot, among the others, so that some tests compute while others wait.
    Those with the longest timeouts begin first, and all of them well before the end, where no other tests would fill
    the waits."""
    long = sorted((item for item in items if "acceptance" in item.path.parts), key=patience, reverse=True)
    others = [item for item in items if "acceptance" not in item.path.parts]
    step = len(others) * 0.75 / max(len(long), 1)
    places = [(number * step, item) for number, item in enumerate(long)] + list(enumerate(others))
    items[:] = [item for _, item in sorted(places, key=lambda place: place[0])]
