"""Collects the facts of a database, without judging them."""

from itertools import chain
from typing import Any

from interlock import errors
from interlock.doctor.facts import ConnectionLimit, DatabaseFacts, Need, Privilege, Setting, StandbyFacts
from interlock.doctor.needs import needs
from interlock.doctor.probes import clock_offset, pooler_mode, round_trip
from interlock.schema import SchemaStatus, read_status
from interlock.stores.postgres import Queries, Session

SETTINGS = (
    "deadlock_timeout",
    "fsync",
    "full_page_writes",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "lock_timeout",
    "statement_timeout",
    "synchronous_commit",
    "synchronous_standby_names",
    "transaction_timeout",
)


async def observe(session: Session, url: str, schema: str) -> DatabaseFacts:
    queries = Queries("interlock.doctor", "queries.sql", schema)
    settings = await _settings(session, queries)  # first: a timeout may hit the later queries
    wanted = needs(schema)
    about = await session.fetchrow(queries["session"])
    assert about is not None
    return DatabaseFacts(
        **dict(about),
        settings=settings,
        round_trip=await round_trip(session),
        clock=await clock_offset(session),
        pooler=await pooler_mode(session, url),
        standbys=tuple(StandbyFacts(**row) for row in await session.fetch(queries["standbys"])),
        rooms=tuple(ConnectionLimit(**row) for row in await session.fetch(queries["rooms"]) if row["limit"] >= 0),
        schema=await _schema(session, schema),
        needs=wanted,
        held=await _held(session, queries, schema, set(chain.from_iterable(wanted.values()))),
    )


async def _settings(session: Session, queries: Queries) -> dict[str, Setting]:
    """Returns those of `SETTINGS` that this server knows."""
    rows = await session.fetch(queries["settings"], SETTINGS)
    return {row["name"]: Setting(_value(row["setting"], row["unit"]), row["source"]) for row in rows}


def _value(text: str, unit: str | None) -> Any:
    return int(text) / 1000 if unit == "ms" else text


async def _schema(session: Session, schema: str) -> SchemaStatus | None:
    try:
        return await read_status(session, schema)
    except errors.PermissionMissing:
        return None


async def _held(session: Session, queries: Queries, schema: str, asked: set[Need]) -> dict[Need, Privilege]:
    columns = ([getattr(need, column) for need in asked] for column in ("privilege", "kind", "name"))
    held = dict.fromkeys(asked, Privilege.ABSENT)
    for row in await session.fetch(queries["privileges"], schema, *columns):
        need = Need(row["privilege"], row["kind"], row["name"])
        if row["held"] is not None:
            held[need] = _more(held[need], row["held"], row["by_all"])
    return held


def _more(known: Privilege, has_it: bool, by_all: bool) -> Privilege:
    """Combines the known state with one more answer, which is for the role or for PUBLIC."""
    if has_it and (by_all or known is Privilege.BY_ALL):
        return Privilege.BY_ALL
    return Privilege.YES if has_it or known is Privilege.YES else Privilege.NO
