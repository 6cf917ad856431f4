"""Releasing a lease: it never waits for a guard, reaches the database in the end, and ends no other grant."""

import asyncio
from collections.abc import Callable
from unittest.mock import Mock

import psycopg
import pytest

from interlock import AsyncInterlock, errors
from interlock.coordination.engine.batch import Batcher
from interlock.coordination.events import Acquired, Event, Released
from interlock.coordination.lease.grant import AsyncGrant
from support.lease_engine import (
    count_calls,
    end_session,
    fail,
    holder,
    queue,
    reach,
    sessions,
    stop_after,
    stop_before,
    until,
)
from support.postgres import execute
from support.proxy import cable_to
from support.sql_leases import ask

UNREACHABLE = errors.DatabaseUnreachable("It did not answer in time.")


async def test_a_release_does_not_wait_for_a_guarded_transaction(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    """The block of a lease may end inside the transaction: otherwise neither would ever end."""
    with psycopg.connect(interlock_url) as connection:
        async with locks.lease("feeds") as grant:
            connection.execute("SELECT interlock.guard_v1(%s, %s, %s)", [grant.name, grant.token, grant.grant_id])
        assert holder(interlock_url) is None
        assert ask(interlock_url, "feeds", ttl=30).status == "locked", "the next one waits for the guard"
        waiter = asyncio.ensure_future(others.lease("feeds").acquire())
        await until(lambda: queue(interlock_url))
        assert not waiter.done()
        connection.commit()
    assert (await waiter).token > grant.token


async def test_the_release_of_a_locked_row_is_retried_soon(locks: AsyncInterlock, interlock_url: str) -> None:
    grant = await locks.lease("feeds").acquire()
    with psycopg.connect(interlock_url) as other:
        other.execute("SELECT FROM interlock.lease FOR NO KEY UPDATE")
        assert await grant.release() is True
        assert holder(interlock_url) is not None
    await until(lambda: holder(interlock_url) is None)


async def test_a_release_during_a_renewal_round_leaves_a_free_lease(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewing = stop_after(monkeypatch, "renew")
    grant = await locks.lease("feeds", ttl=30, renew_every=0.05).acquire()
    await renewing.reached()
    assert await grant.release() is True
    renewing.go()
    assert holder(interlock_url) is None
    assert locks.metrics.snapshot().losses == dict.fromkeys(locks.metrics.losses, 0)


async def test_a_renewal_after_the_release_changes_nothing(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewing = stop_before(monkeypatch, "renew")
    grant = await locks.lease("feeds", ttl=30, renew_every=0.05).acquire()
    await renewing.reached()
    await grant.release()
    answer = ask(interlock_url, "feeds", ttl=30)
    before = execute(interlock_url, "SELECT token, grant_id, expires_at FROM interlock.lease")
    renewing.go()
    await until(lambda: locks.metrics.snapshot().renewal_rounds["done"])
    assert answer.status == "granted"
    assert execute(interlock_url, "SELECT token, grant_id, expires_at FROM interlock.lease") == before
    assert not grant.lost


async def test_an_unanswered_release_is_delivered_later(interlock_url: str) -> None:
    with cable_to(interlock_url) as (cable, url):
        locks = AsyncInterlock(url, request_timeout=0.3)
        await reach(locks)
        grant = await locks.lease("feeds", ttl=60).acquire()
        cable.cut()
        assert await grant.release() is True
        assert grant.ended
        assert holder(interlock_url) == grant.grant_id
        cable.restore()
        await until(lambda: holder(interlock_url) is None)
        await locks.close()


async def test_a_cancelled_release_still_completes(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_before(monkeypatch, "release")
    grant = await locks.lease("feeds").acquire()
    releasing = asyncio.create_task(grant.release())
    await stop.reached()
    releasing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await releasing
    stop.go()
    await until(lambda: holder(interlock_url) is None)


async def test_a_cancelled_release_that_fails_is_retried(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "release", UNREACHABLE)
    stop = stop_before(monkeypatch, "release")
    grant = await locks.lease("feeds").acquire()
    releasing = asyncio.create_task(grant.release())
    await stop.reached()
    releasing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await releasing
    stop.go()
    await until(lambda: holder(interlock_url) is None)


async def test_a_second_release_sends_no_request(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = count_calls(monkeypatch, "release")
    async with locks.lease("feeds") as grant:
        assert await grant.release() is True
    assert await grant.release() is False
    async with locks.lease("other"):
        pass
    assert [[held.name for held in grants] for (grants,) in calls] == [["feeds"], ["other"]]


async def test_concurrent_releases_share_a_statement(locks: AsyncInterlock, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch, "release")
    grants = [await locks.lease(f"feed {number}").acquire() for number in range(10)]
    assert await asyncio.gather(*(grant.release() for grant in grants)) == [True] * 10
    assert [len(released) for (released,) in calls] == [10]


async def test_one_bad_request_in_a_batch_fails_alone(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database refuses the whole statement because of one of them."""
    execute(interlock_url, "ALTER TABLE interlock.lease ADD CHECK (name <> 'bad' OR token = 0)")
    names = ["good", "bad", "better"]
    async with locks.lease("warm"):
        tries = (locks.lease(name).try_acquire() for name in names)
        answers = dict(zip(names, await asyncio.gather(*tries, return_exceptions=True), strict=True))
    assert isinstance(answers["bad"], errors.StatementFailed)
    for name in ("good", "better"):
        assert holder(interlock_url, name) == getattr(answers[name], "grant_id")  # noqa: B009


async def test_a_name_that_another_transaction_is_adding_does_not_block_other_names(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    async with locks.lease("warm"):
        with psycopg.connect(interlock_url) as other:
            other.execute("SELECT interlock.register_v1(ARRAY['slow'])")
            slow, quick, warm = (locks.lease(name) for name in ("slow", "quick", "warm"))
            answers = await asyncio.gather(slow.try_acquire(), quick.try_acquire(), warm.try_acquire())
            assert answers[0] is None, "another transaction is just adding it"
            assert answers[1] is not None
            assert await slow.try_acquire() is None
            waiter = asyncio.ensure_future(slow.acquire())
            await answers[1].release()
    granted = await waiter
    assert holder(interlock_url, "slow") == granted.grant_id


async def test_an_interrupted_release_does_not_keep_the_grant(
    locks: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal may interrupt the sending: the grant would be renewed without end."""
    releases: list[Callable[[AsyncGrant], object]] = [
        locks.engine().begin_release,
        locks.engine().release_unconfirmed,
        locks.engine().drop,
    ]
    for number, release in enumerate(releases):
        grant = await locks.lease(f"feeds/{number}").acquire()
        with monkeypatch.context() as patch:
            patch.setattr(Batcher, "submit", Mock(side_effect=KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                release(grant)
        assert locks.engine().held == locks.metrics.snapshot().held == 0


async def test_a_release_is_delivered_although_a_hook_ends_the_thread(
    interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(event: Event) -> None:
        if isinstance(event, Released):
            raise SystemExit

    fail(monkeypatch, "release", UNREACHABLE)
    async with AsyncInterlock(interlock_url, on_event=leave) as locks:
        grant = await locks.lease("feeds", ttl=60).acquire()
        with pytest.raises(SystemExit):
            await grant.release()
        await until(lambda: holder(interlock_url) is None)


UNUSED = """
    INSERT INTO interlock.lease (name, token, renewed_at)
    SELECT 'old ' || n, n, interlock.now_v1() - interval '30 days' FROM generate_series(1, 2500) n
"""


async def test_a_grant_is_released_if_a_hook_ends_the_thread(interlock_url: str) -> None:
    def leave(event: Event) -> None:
        if isinstance(event, Acquired):
            raise SystemExit

    async with AsyncInterlock(interlock_url, on_event=leave) as locks:
        with pytest.raises(SystemExit):
            await locks.lease("feeds", ttl=60).acquire()
        assert locks.engine().held == 0
        await until(lambda: holder(interlock_url) is None)


async def test_all_leases_unused_for_a_week_are_deleted(locks: AsyncInterlock, interlock_url: str) -> None:
    """Also if there are more than one statement deletes."""
    execute(interlock_url, UNUSED)
    locks.engine()._deferred._sweep_at = 0.0
    async with locks.lease("feeds"):
        pass
    left = "SELECT count(*) FROM interlock.lease WHERE name LIKE 'old %%'"
    await until(lambda: execute(interlock_url, left) == [(0,)])


async def test_a_release_that_failed_with_another_error_is_retried(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is unknown whether it was sent: the stack was full, for example, and may be full again."""
    fail(monkeypatch, "release", RecursionError(), times=3)
    grant = await locks.lease("feeds", ttl=60).acquire()
    with pytest.raises(RecursionError):
        await grant.release()
    await until(lambda: holder(interlock_url) is None)


async def test_an_acquire_that_failed_with_another_error_leaves_no_lease(
    locks: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "acquire", RecursionError(), after=True, times=2)
    with pytest.raises(RecursionError):
        await locks.lease("feeds", ttl=12).acquire()
    assert holder(interlock_url) is not None
    await until(lambda: holder(interlock_url) is None)


async def test_a_release_that_met_an_ended_session_is_retried_at_close(interlock_url: str) -> None:
    """The server ends the session, and the block and its root object end before the client has noticed."""
    async with AsyncInterlock(interlock_url) as locks, locks.lease("feeds", ttl=3600):
        for purpose in set(sessions(interlock_url).values()):
            end_session(interlock_url, purpose)
    assert execute(interlock_url, "SELECT count(*) FROM interlock.lease WHERE expires_at > interlock.now_v1()") == [
        (0,)
    ]
