"""Probes on a real server: clocks that differ, and the figures that go with it."""

import time
from collections.abc import AsyncIterator

import pytest

from interlock.doctor.observation import SETTINGS, observe
from interlock.doctor.probes import clock_offset, round_trip
from interlock.stores.postgres import Session, connect


@pytest.fixture
async def session(interlock_url: str) -> AsyncIterator[Session]:
    async with await connect(interlock_url, application_name="test") as session:
        yield session


@pytest.mark.parametrize("moved", [-3600.0, -5.0, 0.0, 5.0, 3600.0])
async def test_a_clock_of_ours_that_was_moved_shows(
    session: Session, monkeypatch: pytest.MonkeyPatch, moved: float
) -> None:
    true_time = time.time
    monkeypatch.setattr("interlock.doctor.probes.time.time", lambda: true_time() + moved)
    offset = await clock_offset(session)
    assert abs(offset.ahead + moved) <= offset.uncertainty
    assert offset.uncertainty > 0


async def test_a_round_trip_takes_time(session: Session) -> None:
    assert await round_trip(session) > 0


async def test_every_setting_that_the_server_knows_is_seen_with_its_source(
    session: Session, interlock_url: str
) -> None:
    facts = await observe(session, interlock_url, "interlock")
    missing = set(SETTINGS) - set(facts.settings)
    assert missing <= {"transaction_timeout"}, "which is PostgreSQL 17's"
    assert facts.settings["deadlock_timeout"].value == 1.0
    assert facts.settings["fsync"].source == "configuration file"


async def test_looking_leaves_nothing_behind(session: Session, interlock_url: str) -> None:
    left = """
    SELECT (SELECT count(*) FROM pg_locks WHERE locktype IN ('advisory', 'relation') AND pid = pg_backend_pid()
                                            AND relation::regclass::text NOT LIKE 'pg_%'),
           (SELECT count(*) FROM pg_prepared_statements), pg_current_xact_id_if_assigned()
    """
    before = await session.fetchrow(left)
    await observe(session, interlock_url, "interlock")
    assert await session.fetchrow(left) == before
