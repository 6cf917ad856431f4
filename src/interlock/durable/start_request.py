"""That an orchestration be run, or cancelled: what is asked for, and what the database's answer means.

It is checked before anybody is asked. Then it is recorded on whichever connection there is: Interlock's own, or the
caller's, in the caller's own transaction.
"""

import json
from typing import Any, Generic, TypeVar

from interlock.durable.declared import Orchestration
from interlock.durable.run import enveloped
from interlock.errors import ConfigurationError, OrchestrationConflict, OrchestrationUnknown

I = TypeVar("I")  # noqa: E741 # input and output
O = TypeVar("O")  # noqa: E741

_LONGEST_ID = 200


class StartRequest(Generic[O]):
    """`args` are those of the statement `record`; `content` is what the engine is told."""

    def __init__(self, orchestration: Orchestration[I, O], id: str, value: I) -> None:  # noqa: A002
        if not (isinstance(id, str) and id and id.isprintable() and len(id.encode()) <= _LONGEST_ID):
            raise ConfigurationError(f"id={id!r}: give some text without control characters, 200 bytes at most.")
        plain = orchestration.input.plain(value)
        cleanup = orchestration.cleanup
        self.id = id
        self.orchestration = orchestration
        self.content = enveloped(id, plain)
        self.args = (
            id,
            orchestration.name,
            orchestration.version,
            json.dumps(plain),
            cleanup and cleanup.name,
            cleanup and cleanup.version,
        )

    def is_new(self, verdict: Any) -> bool:
        """False: the same was asked for before. Raises where something else was."""
        if verdict == "different":
            raise OrchestrationConflict(
                f"Something else was asked for under the id {self.id!r}: choose another id, or ask for the same."
            )
        return bool(verdict == "recorded")


def check_known(id: str, found: Any) -> None:  # noqa: A002
    if not found:
        raise OrchestrationUnknown(f"There is no orchestration {id!r}: it was never asked for, or is forgotten.")
