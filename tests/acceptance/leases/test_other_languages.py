"""psql and Python share leases: each waits for the other's, in one queue, under one guard."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest

from interlock import AsyncInterlock, errors
from interlock.coordination.lease.grant import AsyncGrant
from support.crews import crew
from support.history_recorder import Recorder
from support.postgres import execute
from support.programs import interlock
from support.psql import Grant, Psql
from support.sql_leases import row, set_clock, step_clock
from support.waiting import eventually

WAITERS = "SELECT count(*) FROM interlock.waiters_v1('feeds')"


@pytest.fixture
def url(interlock_url: str) -> str:
    """The URL of the same database for a role with the grant `--for leases` only."""
    parts = urlsplit(interlock_url)
    role = f"leases_only_{parts.path.lstrip('/')}"
    execute(interlock_url, f"CREATE ROLE {role} LOGIN PASSWORD 'geheim'")
    assert interlock("schema", "grant", role, "--for", "leases", url=interlock_url).returncode == 0
    return urlunsplit(parts._replace(netloc=f"{role}:geheim@{parts.hostname}:{parts.port}"))


@pytest.fixture
def psql(url: str) -> Iterator[Psql]:
    with Psql(url) as psql:
        yield psql


async def waiting_in_python(locks: AsyncInterlock, url: str) -> "asyncio.Task[AsyncGrant]":
    """A waiter in the queue, behind all others that are in it."""
    ((before,),) = execute(url, WAITERS)
    waiting = asyncio.create_task(locks.lease("feeds", ttl=3600).acquire(timeout=50).__aenter__())
    await asyncio.to_thread(eventually, lambda: execute(url, WAITERS) == [(before + 1,)])
    return waiting


def test_a_role_for_leases_only_reads_no_table_and_breaks_nothing(psql: Psql) -> None:
    grant = psql.acquire("feeds")
    assert psql.run("SELECT name, held FROM interlock.leases_v1()") == ["feeds|t"]
    for forbidden in ("SELECT * FROM interlock.lease", "SELECT interlock.break_v1('feeds', true, false, 'a', 'b')"):
        assert psql.run(forbidden)[0].startswith("ERROR:  42501"), forbidden
    assert psql.release(grant) == "released"


async def test_a_lease_of_psql_is_not_granted_to_python_and_vice_versa(url: str, psql: Psql) -> None:
    async with AsyncInterlock(url, replica="in python") as locks:
        lease = locks.lease("feeds", ttl=30)
        theirs = psql.acquire("feeds")
        assert await lease.try_acquire() is None
        with pytest.raises(errors.LeaseTimeout):
            await lease.acquire(timeout=0)
        assert psql.release(theirs) == "released"

        ours = await lease.try_acquire()
        assert ours is not None
        assert ours.token > theirs.token
        assert psql.ask("feeds") == ("busy", None)
        assert psql.run("SELECT holder FROM interlock.leases_v1('feeds')") == ["in python"]
        assert psql.release(theirs) == psql.renew(theirs) == "lost"
        assert await ours.release()
        assert psql.acquire("feeds").token > ours.token


async def test_both_wait_in_one_queue(interlock_url: str, url: str, psql: Psql) -> None:
    """The database's clock is moved by hand, so that no waiter can be too late."""
    set_clock(interlock_url, 0)
    first, third = uuid4(), uuid4()
    async with AsyncInterlock(url) as holder, AsyncInterlock(url) as other:
        held = await holder.lease("feeds", ttl=3600).acquire()
        assert psql.ask("feeds", wait=True, grant_id=first) == ("busy", None)
        set_clock(interlock_url, 0.1)
        second = await waiting_in_python(other, url)
        set_clock(interlock_url, 0.2)
        assert psql.ask("feeds", wait=True, grant_id=third) == ("busy", None)

        assert await held.release()
        assert psql.ask("feeds", wait=True, grant_id=third) == ("busy", None)
        _, firsts = psql.ask("feeds", ttl=3600, wait=True, grant_id=first)
        assert firsts
        assert not second.done()

        assert psql.release(firsts) == "released"
        seconds = await second
        assert psql.ask("feeds", wait=True, grant_id=third) == ("busy", None)

        assert await seconds.release()
        _, thirds = psql.ask("feeds", wait=True, grant_id=third)
        assert thirds
        assert held.token < firsts.token < seconds.token < thirds.token


async def test_psql_is_notified_when_it_is_its_turn(url: str, psql: Psql) -> None:
    grant_id = uuid4()
    with Psql(url) as listening:
        assert listening.run("SELECT interlock.listen_v1(4711); LISTEN interlock_4711") == ["t"]
        async with AsyncInterlock(url) as locks:
            held = await locks.lease("feeds").acquire()
            assert psql.ask("feeds", wait=True, grant_id=grant_id, listener=4711) == ("busy", None)
            assert await held.release()
        (notice,) = await asyncio.to_thread(eventually, lambda: listening.run("SELECT WHERE false"))
        assert f'"interlock_4711" with payload "{grant_id}"' in notice


async def test_a_stale_transaction_of_psql_is_refused(interlock_url: str, url: str, psql: Psql) -> None:
    execute(interlock_url, "CREATE TABLE report (made_by bigint); GRANT INSERT ON report TO PUBLIC")
    stale = psql.acquire("feeds")
    assert psql.write(stale, f"INSERT INTO report VALUES ({stale.token})") == [""]
    step_clock(interlock_url, 3600)
    async with AsyncInterlock(url) as locks:
        current = await locks.lease("feeds").try_acquire()
        assert current is not None
        assert psql.write(stale, f"INSERT INTO report VALUES ({stale.token})")[0].startswith("ERROR:  IL001")
        assert psql.release(stale) == "lost"
        assert row(interlock_url, "feeds").grant_id == current.grant_id
    assert execute(interlock_url, "SELECT made_by FROM report") == [(stale.token,)]


async def test_python_waits_for_an_open_transaction_of_psql(interlock_url: str, url: str, psql: Psql) -> None:
    held = psql.acquire("feeds")
    psql.run(f"BEGIN; SELECT interlock.guard_v1({held.triple})")
    step_clock(interlock_url, 3600)
    async with AsyncInterlock(url) as locks:
        assert await locks.lease("feeds").try_acquire() is None
        waiting = asyncio.create_task(locks.lease("feeds").acquire(timeout=50).__aenter__())
        await asyncio.to_thread(eventually, lambda: execute(url, WAITERS) == [(1,)])
        assert not waiting.done()
        assert psql.run("COMMIT") == []
        assert (await waiting).token > held.token


def take_turns(psql: Psql, recorder: Recorder, times: int) -> None:
    """As `support.lease_worker`, in psql."""
    for _ in range(times):
        grant = acquired(psql)
        recorder.granted(grant)
        (number,) = psql.run(f"SELECT count(*) FROM ledger WHERE name = 'feeds' AND token < {grant.token}")
        recorder.looked(grant, int(number))
        _, position = psql.write(
            grant, f"INSERT INTO ledger (name, token) VALUES ('feeds', {grant.token}) RETURNING position"
        )
        recorder.acknowledged(grant, int(position))
        recorder.ended(grant)
        assert psql.release(grant) == "released"


def acquired(psql: Psql) -> Grant:
    grant_id = uuid4()
    grant = eventually(lambda: psql.ask("feeds", ttl=5, wait=True, grant_id=grant_id)[1], within=60)
    assert grant
    return grant


@pytest.mark.exhaustive
@pytest.mark.timeout(120)
def test_a_race_of_psql_and_python(interlock_url: str, url: str, psql: Psql, tmp_path: Path) -> None:
    with crew(interlock_url, tmp_path, ["feeds"], ttl=5) as racers:
        execute(interlock_url, "GRANT ALL ON ledger, ledger_position_seq TO PUBLIC")
        racers.hire(2, url=url)
        racers.go_on(5)
        take_turns(psql, Recorder(tmp_path, "psql"), 30)
        racers.go_on(5)
        racers.dismiss()
        found, happened = racers.judge(calm=True)
    assert found == []
    assert happened["acknowledged"] == happened["granted"] > 50
