"""The samples of a domain that the harness needs."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from interlock.durable.declarations import Orchestrations


def _nothing(url: str, id: str) -> None:  # noqa: A002
    """It begins with nothing."""


@contextmanager
def _nowhere() -> Iterator[dict[str, str]]:
    yield {}


@dataclass(frozen=True)
class Sample:
    """`value` makes an input for an id. The queries get the id as %(id)s: `effects` and `events` each count to 1 after
    an activity, `state` shows what an orchestration leaves, without what differs from run to run. `prepare` gets the
    database and the id before."""

    value: Callable[[str], Any]
    effects: str = ""
    events: str = ""
    state: str = ""
    prepare: Callable[[str, str], None] = _nothing


@dataclass(frozen=True)
class Domain:
    """`module` is imported by the processes that are killed; its `TABLES` and `parts` are the domain's.

    `surroundings` are what it needs beside a database, for as long as tests run: variables of the environment.
    """

    module: str
    parts: tuple[Orchestrations, ...]
    tables: str
    activities: dict[str, Sample]
    orchestrations: dict[str, Sample] = field(default_factory=dict)
    surroundings: Callable[[], AbstractContextManager[dict[str, str]]] = _nowhere
