"""The stores that have to pass this suite. A new one is a line here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest


@dataclass(frozen=True)
class Kind:
    """`url` names a fresh store. `gaps`: what it does not promise, word for word as the suite calls it, and why."""

    url: Callable[[pytest.FixtureRequest], str]
    gaps: Mapping[str, str] = field(default_factory=dict)


KINDS = {
    "PostgreSQL": Kind(lambda request: str(request.getfixturevalue("interlock_url"))),
    "SQLite": Kind(
        lambda request: f"sqlite:///{request.getfixturevalue('tmp_path')}/leases.db",
        gaps={
            "a guarded name holds up no other": "SQLite has one writer: a transaction that writes holds up the whole file",
            "the holder's renewals pass an open guard": "they wait for it, as every writer of the file does",
        },
    ),
}
