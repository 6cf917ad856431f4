"""A session that is kept by heartbeats: what the server makes of its silence, and how long its locks are trusted."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from interlock import errors
from interlock.clock import boottime
from interlock.stores.postgres import connect
from interlock.stores.postgres.direct_connection import configure
from interlock.stores.postgres.heartbeat_session import HeartbeatSession
from support.postgres import execute
from support.proxy import cable_to
from support.waiting import eventually


@asynccontextmanager
async def kept_at(url: str, *, silent_for: float = 4.0) -> AsyncIterator[HeartbeatSession]:
    """The server ends it when it was `silent_for` so many seconds."""
    session = await connect(url, application_name="test")
    await configure(session, {"idle_session_timeout": f"{silent_for * 1000:.0f}"})
    kept = HeartbeatSession(session, session.announced_pid, owner="the test", trust=10, heartbeat=0.01)
    kept.trust_from(boottime())
    yield kept
    await session.abort()


def is_there(url: str, kept: HeartbeatSession) -> bool:
    return bool(execute(url, "SELECT 1 FROM pg_stat_activity WHERE pid = %s", kept.pid))


async def test_a_session_that_beats_is_not_ended_for_its_silence(database_url: str) -> None:
    beats = 0

    async def count() -> None:
        nonlocal beats
        beats += 1

    async with kept_at(database_url) as kept:
        keeping = asyncio.create_task(kept.run_heartbeats(count))
        await asyncio.to_thread(eventually, lambda: beats > 450)  # which take longer than the server's patience
        assert is_there(database_url, kept)
        keeping.cancel()


async def test_a_session_is_ended_for_its_silence_even_in_the_middle_of_a_heartbeat(database_url: str) -> None:
    """Its replies are lost: a heartbeat of two messages would never come to send the second."""
    with cable_to(database_url) as (cable, url):
        async with kept_at(url, silent_for=0.5) as kept:
            cable.swallow_replies()
            beating = asyncio.create_task(kept.beat())
            await asyncio.to_thread(eventually, lambda: not is_there(database_url, kept))
            beating.cancel()


async def test_trust_is_counted_from_before_the_heartbeat_was_sent(database_url: str) -> None:
    with cable_to(database_url) as (cable, url):
        async with kept_at(url) as kept:
            cable.delay = 0.2
            sent_at = boottime()
            await kept.beat()
            assert kept.trusted_until < sent_at + 10 + cable.delay


async def test_trust_that_has_run_out_does_not_come_back(database_url: str) -> None:
    async with kept_at(database_url) as kept:
        kept.trust_from(boottime() - 10)
        ran_out_at = kept.trusted_until
        assert await kept.run_heartbeats() == "no heartbeat was answered in time"
        with pytest.raises(TimeoutError):
            await kept.beat()
        assert kept.trusted_until == ran_out_at


async def test_a_session_that_the_server_ends_is_noticed_at_once(database_url: str) -> None:
    async with kept_at(database_url) as kept:
        keeping = asyncio.create_task(kept.run_heartbeats())
        execute(database_url, "SELECT pg_terminate_backend(%s)", kept.pid)
        assert "ended" in await keeping
        assert "ended" in await kept.run_heartbeats(), "also if it happened before we looked"


async def test_another_server_process_that_answers_is_not_trusted(database_url: str) -> None:
    async with kept_at(database_url) as kept:
        kept.pid += 1
        with pytest.raises(errors.PoolerRefused, match="A pooler moved the test's session"):
            await kept.beat()
