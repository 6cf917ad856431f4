"""Asking for orchestrations in a transaction of the caller's, without an engine: the record is the outbox."""

from typing import Any, TypeVar

from interlock.durable.caller_transaction import ask
from interlock.durable.database import Statements
from interlock.durable.declared import Orchestration
from interlock.durable.start_request import StartRequest

I = TypeVar("I")  # noqa: E741 # input


async def record(
    connection: Any,
    schema: str,
    orchestration: Orchestration[I, Any],
    id: str,  # noqa: A002
    value: I,
) -> None:
    """Have it run, once the transaction on `connection` is committed; the same again changes nothing."""
    wish = StartRequest(orchestration, id, value)
    wish.is_new(await ask(connection, Statements(schema)["record"], *wish.args))


async def cancel(connection: Any, schema: str, id: str, reason: str) -> None:  # noqa: A002
    """Have it cancelled once that is committed; one that has ended, or was forgotten, stays as it is."""
    await ask(connection, Statements(schema)["cancel"], id, reason)
