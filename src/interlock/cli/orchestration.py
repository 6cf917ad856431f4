"""``interlock orchestration``: shows orchestrations and their progress, and cancels them, without an engine."""

import json
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.failure import NothingToDo
from interlock.cli.output import duration_text, escaped, json_option, print_result, time_text, titled_lines
from interlock.cli.settings import database_options, run_on_database

if TYPE_CHECKING:
    from interlock.config import Settings
    from interlock.durable.status import HistoryEvent, OrchestrationStatus
    from interlock.stores.postgres import Session
    from interlock.stores.postgres.session import Row


@click.group()
def orchestration() -> None:
    """Durable orchestrations: list, show, cancel."""


@orchestration.command("list")
@click.argument("prefix", default="")
@click.option("--unfinished", is_flag=True, help="Only orchestrations that have not ended.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="The largest number of lines.")
@json_option
@database_options
def list_(prefix: str, unfinished: bool, limit: int, as_json: bool, **flags: Any) -> None:
    """Show the orchestrations whose ids begin with PREFIX, the newest first."""
    from interlock.durable.status import OrchestrationStatus

    async def work(session: "Session", settings: "Settings") -> "list[OrchestrationStatus]":
        return [
            OrchestrationStatus.of(row) for row in await _rows(session, settings, "list", prefix, unfinished, limit)
        ]

    found = run_on_database(work, flags)
    print_result(
        found, "\n".join(map(_line, found)) or "There is no such orchestration in this database.", as_json=as_json
    )


@orchestration.command()
@click.argument("id")
@json_option
@database_options
def show(id: str, as_json: bool, **flags: Any) -> None:  # noqa: A002
    """Show the state, the input and the result of the orchestration ID."""

    async def work(session: "Session", settings: "Settings") -> "OrchestrationStatus":
        return await _found(session, settings, id)

    found = run_on_database(work, flags)
    print_result(found, _text(found), as_json=as_json)


@orchestration.command()
@click.argument("id")
@json_option
@database_options
def history(id: str, as_json: bool, **flags: Any) -> None:  # noqa: A002
    """Show every step of the orchestration ID, in order."""
    from interlock.durable.status import history_of

    async def work(session: "Session", settings: "Settings") -> "list[HistoryEvent]":
        await _found(session, settings, id)
        return history_of(await _rows(session, settings, "history", id))

    events = run_on_database(work, flags)
    print_result(events, "\n".join(map(_event, events)) or "The engine has not started it yet.", as_json=as_json)


@orchestration.command()
@click.argument("id")
@click.option("--reason", metavar="TEXT", default="", help="The reason, which is recorded.")
@json_option
@database_options
def cancel(id: str, reason: str, as_json: bool, **flags: Any) -> None:  # noqa: A002
    """Request the cancellation of the orchestration ID.

    A running replica cancels the orchestration and runs its cleanup, within seconds. Exits with 1 if the orchestration
    has ended or does not exist.
    """
    from interlock.cli.settings import operator_name
    from interlock.durable.database import Statements

    async def work(session: "Session", settings: "Settings") -> str | None:
        await _require_schema(session, settings)
        why = f"{reason} ({operator_name()})" if reason else operator_name()
        verdict: str | None = await session.fetchval(Statements(settings.schema)["cancel"], id, why)
        return verdict

    verdict = run_on_database(work, flags)
    if verdict is None:
        raise _unknown(id)
    if verdict == "finished":
        raise NothingToDo(f"The orchestration {id!r} has ended: there is nothing to cancel.")
    print_result({"id": id, "cancelled": verdict}, f"{escaped(id)} will be cancelled.", as_json=as_json)


async def _found(session: "Session", settings: "Settings", id: str) -> "OrchestrationStatus":  # noqa: A002
    from interlock.durable.status import OrchestrationStatus

    if rows := await _rows(session, settings, "read", id):
        return OrchestrationStatus.of(rows[0])
    raise _unknown(id)


async def _rows(session: "Session", settings: "Settings", statement: str, *args: Any) -> "list[Row]":
    from interlock.durable.database import Statements, engine_schema

    await _require_schema(session, settings)
    if not await session.fetchval("SELECT to_regclass($1) IS NOT NULL", f"{engine_schema(settings.schema)}.instances"):
        raise NothingToDo("No replica has run orchestrations on this database yet: start one, or check --database.")
    return await session.fetch(Statements(settings.schema)[statement], *args)


async def _require_schema(session: "Session", settings: "Settings") -> None:
    from interlock.schema import read_status

    (await read_status(session, settings.schema)).require()


def _unknown(id: str) -> NothingToDo:  # noqa: A002
    return NothingToDo(
        f"There is no orchestration {id!r} in this database: it was never requested, or its record was deleted."
    )


def _line(one: "OrchestrationStatus") -> str:
    error = f", {escaped(one.code or '')}: {escaped(one.error)}" if one.error else ""
    return (
        f"{escaped(one.id)}: {one.state}, {escaped(one.name)} {one.version}, since {time_text(one.recorded_at)}{error}"
    )


def _text(one: "OrchestrationStatus") -> str:
    took = one.finished_at and one.started_at and duration_text((one.finished_at - one.started_at).total_seconds())
    facts = {
        "state": one.state + (f", {one.cancel_reason}" if one.cancel_reason else ""),
        "orchestration": f"{one.name} {one.version}",
        "recorded": time_text(one.recorded_at),
        "started": one.started_at and time_text(one.started_at),
        "finished": one.finished_at and time_text(one.finished_at) + (f", after {took}" if took else ""),
        "continued": one.execution > 1 and f"{one.execution - 1} times with a new history",
        "input": json.dumps(one.input, ensure_ascii=False),
        "result": one.state == "completed" and json.dumps(one.result, ensure_ascii=False),
        "error": one.error and f"{one.code}: {one.error}",
    }
    return titled_lines(one.id, facts)


def _event(event: "HistoryEvent") -> str:
    facts = ", ".join(f"{name} {escaped(str(fact))}" for name, fact in event.facts.items())
    place = f"{event.execution}.{event.number}"
    return f"{place:>6} {event.at:%H:%M:%S.%f} {event.kind} {escaped(event.name or '')}  {facts}".rstrip()
