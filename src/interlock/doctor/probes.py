"""Probes that take several queries: the round trip, the clocks' offset, the pooler's mode."""

import asyncio
import time
from itertools import starmap

from interlock import errors
from interlock.doctor.facts import Offset, Pooler, ServerFacts
from interlock.stores.postgres import Session, connect
from interlock.stores.postgres.url import ServerAddress, one_by_one

NAME = "interlock doctor"

_ROUNDS = 5
_TIMEOUT = 3.0


async def round_trip(session: Session) -> float:
    """Returns the shortest of a few round trips: longer ones show delays of this machine, not of the network."""
    taken = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        await session.execute("SELECT 1")
        taken.append(time.perf_counter() - began)
    return min(taken)


async def clock_offset(session: Session) -> Offset:
    """Returns the offset of the server's clock, which the server read at some moment between query and answer."""
    found = []
    for _ in range(_ROUNDS):
        asked_at = time.time()
        told = await session.fetchval("SELECT extract(epoch FROM clock_timestamp())::float8")
        half = (time.time() - asked_at) / 2
        found.append(Offset(told - asked_at - half, abs(half)))
    return min(found, key=lambda offset: offset.uncertainty)


async def pooler_mode(session: Session, url: str) -> Pooler:
    """Returns the mode of the pooler, if any. A pooler announces an invented server process.

    A second client shows the pooler's mode: in session mode no other client gets the server process of this session,
    and this session gets no other process.
    """
    mine = await _pid(session)
    if session.announced_pid == mine:
        return Pooler.NONE
    try:
        async with await _connected(url) as other:
            moves = [await _moves(session, mine, other) for _ in range(_ROUNDS)]
    except errors.ConnectionLost as error:
        return Pooler.STATEMENT if "statement pooling" in str(error) else Pooler.UNKNOWN
    except errors.DatabaseUnreachable:
        return Pooler.UNKNOWN
    return Pooler.TRANSACTION if any(moves) else Pooler.SESSION


async def _moves(session: Session, mine: int, other: Session) -> bool:
    """True if another client's transaction runs in this session's server process, or moves this session to another."""
    async with other.transaction():
        return await _pid(other) == mine or await _pid(session) != mine


async def _pid(session: Session) -> int:
    return int(await session.fetchval("SELECT pg_backend_pid()", timeout=_TIMEOUT))


async def observe_servers(url: str) -> tuple[ServerFacts, ...]:
    """Connects to each server of the URL separately, and returns their facts; empty if the URL names only one."""
    each = one_by_one(url)
    return tuple(await asyncio.gather(*starmap(_observe, each.items()))) if len(each) > 1 else ()


async def _observe(address: ServerAddress, url: str) -> ServerFacts:
    try:
        async with await _connected(url) as session:
            is_standby = await session.fetchval("SELECT pg_is_in_recovery()")
            return ServerFacts(str(address), is_standby=is_standby, clock=await clock_offset(session))
    except errors.StoreError as error:
        return ServerFacts(str(address), error=str(error))


async def _connected(url: str) -> Session:
    return await connect(url, application_name=NAME, timeout=_TIMEOUT, statement_timeout=_TIMEOUT)
