"""Requests for orchestrations: start one, or cancel one.

A request is checked before anything is sent. It is then recorded on Interlock's own connection, or on the caller's, in
the caller's own transaction. This module needs no engine, because the outbox passes the record to the engine.
"""

import json
from typing import Any, Generic, TypeVar

from interlock.durable.database import Statements, fetch_value
from interlock.durable.declarations import Orchestration
from interlock.durable.run import engine_input
from interlock.errors import ConfigurationError, OrchestrationConflict, OrchestrationUnknown

I = TypeVar("I")  # noqa: E741 # input and output
O = TypeVar("O")  # noqa: E741

_LONGEST_ID = 200


class StartRequest(Generic[O]):
    """A request to start an orchestration.

    `args` are the arguments of the statement `record`; `content` is the engine's input.
    """

    def __init__(self, orchestration: Orchestration[I, O], id: str, value: I) -> None:  # noqa: A002
        if not (isinstance(id, str) and id and id.isprintable() and len(id.encode()) <= _LONGEST_ID):
            raise ConfigurationError(
                f"id={id!r} is not valid: use a text without control characters, 200 bytes at most."
            )
        plain = orchestration.input.dump(value)
        cleanup = orchestration.cleanup
        self.id = id
        self.orchestration = orchestration
        self.content = engine_input(id, plain)
        self.args = (
            id,
            orchestration.name,
            orchestration.version,
            json.dumps(plain),
            cleanup and cleanup.name,
            cleanup and cleanup.version,
        )

    def is_new(self, verdict: Any) -> bool:
        """Return False if the same request was recorded before.

        Raises `OrchestrationConflict` for a different request.
        """
        if verdict == "different":
            raise OrchestrationConflict(
                f"A different request was recorded under the id {self.id!r}: choose another id, or repeat that request."
            )
        return bool(verdict == "recorded")


def check_known(id: str, found: Any) -> None:  # noqa: A002
    if not found:
        raise OrchestrationUnknown(
            f"There is no orchestration {id!r} (it was never requested, or its record was pruned): check the id."
        )


async def record(
    connection: Any,
    schema: str,
    orchestration: Orchestration[I, Any],
    id: str,  # noqa: A002
    value: I,
) -> None:
    """Request the start of an orchestration in the caller's transaction.

    The orchestration runs after the commit; a repetition changes nothing.
    """
    request = StartRequest(orchestration, id, value)
    request.is_new(await fetch_value(connection, Statements(schema)["record"], *request.args))


async def cancel(connection: Any, schema: str, id: str, reason: str) -> None:  # noqa: A002
    """Request a cancellation in the caller's transaction.

    If the orchestration has ended or was pruned, nothing changes.
    """
    await fetch_value(connection, Statements(schema)["cancel"], id, reason)
