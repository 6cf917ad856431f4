"""Waiting for a lease: first come, first served, woken by the release, and not delayed by dead waiters."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal
from uuid import uuid4

import psycopg
import pytest

from interlock import AsyncInterlock, errors
from interlock.coordination.engine import queue as wait_queue
from interlock.coordination.lease.grant import AsyncGrant
from interlock.stores.postgres import leases
from support.lease_engine import count_calls, end_session, fail, holder, queue, queued, sessions, stop_before, until
from support.postgres import execute, fresh_database, make_template, running_cluster
from support.sql_leases import ask

UNREACHABLE = errors.DatabaseUnreachable("It did not answer in time.")


@pytest.fixture
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_queue, "_POLL_EVERY", 0.3)


@pytest.mark.usefixtures("no_polls")
async def test_a_release_wakes_the_waiter(locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str) -> None:
    grant = await locks.lease("feeds").acquire()
    waiters = [await queued(locks, interlock_url), await queued(others, interlock_url)]
    for waiter in waiters:
        await grant.release()
        grant = await waiter
        assert holder(interlock_url) == grant.grant_id
    assert queue(interlock_url) == []


@pytest.mark.usefixtures("no_polls")
async def test_first_come_first_served_in_one_process_and_between_several(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    served: list[int] = []
    grant = await locks.lease("feeds").acquire()

    async def work(number: int, task: "asyncio.Task[AsyncGrant]") -> None:
        mine = await task
        served.append(number)
        await mine.release()

    workers = []
    for number in range(6):
        root = locks if number in (0, 1, 4) else others
        workers.append(asyncio.create_task(work(number, await queued(root, interlock_url))))
    await grant.release()
    await asyncio.gather(*workers)
    assert served == list(range(6))


@pytest.mark.usefixtures("only_called")
async def test_a_try_never_overtakes_a_waiter(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_before(monkeypatch, "acquire")
    stop.armed = False
    grant = await others.lease("feeds").acquire()
    waiter = await queued(locks, interlock_url)
    stop.armed = True
    await grant.release()
    await stop.reached()  # it was notified, and has not acquired the lease yet
    assert holder(interlock_url) is None
    assert ask(interlock_url, "feeds", ttl=30).status == "busy"
    stop.go()
    await waiter


@pytest.mark.usefixtures("no_polls")
async def test_a_waiter_gets_a_dead_holders_lease_when_it_expires(locks: AsyncInterlock, interlock_url: str) -> None:
    dead = ask(interlock_url, "feeds", ttl=0.5)
    grant = await locks.lease("feeds").acquire()
    assert grant.token > dead.token


@pytest.mark.usefixtures("quick_polls")
async def test_another_waiter_polls_after_the_polling_one_was_granted(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    """A broken lease is not offered to a waiter when it expires."""
    ask(interlock_url, "feeds", ttl=3600)
    first = await queued(locks, interlock_url, ttl=1)
    second = await queued(locks, interlock_url)
    execute(interlock_url, "UPDATE interlock.lease SET expires_at = interlock.now_v1()")
    grant = await first
    execute(interlock_url, "SELECT interlock.break_v1('feeds', false, false, 'a test', 'me')")
    await until(lambda: grant.lost)
    assert (await second).token > grant.token


@pytest.mark.usefixtures("no_polls")
async def test_waiters_of_a_dead_process_are_skipped_at_once(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    grant = await others.lease("feeds").acquire()
    for listener in range(50):
        dead = "INSERT INTO interlock.waiter VALUES (%s, 'feeds', interlock.now_v1(), %s, interlock.now_v1())"
        execute(interlock_url, dead, uuid4(), listener)
    waiter = await queued(locks, interlock_url)
    await grant.release()
    await waiter
    assert queue(interlock_url) == []


@contextmanager
def a_waiter_that_is_notified_and_never_comes(url: str) -> Iterator[None]:
    with psycopg.connect(url, autocommit=True) as ear:
        ear.execute("SELECT interlock.listen_v1(7)")
        asleep = "INSERT INTO interlock.waiter VALUES (%s, 'feeds', interlock.now_v1(), 7, interlock.now_v1())"
        execute(url, asleep, uuid4())
        yield


@pytest.mark.usefixtures("no_polls")
async def test_a_stopped_waiter_is_skipped_after_a_second(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    grant = await others.lease("feeds").acquire()
    with a_waiter_that_is_notified_and_never_comes(interlock_url):
        waiter = await queued(locks, interlock_url)
        await grant.release()
        await waiter
        assert queue(interlock_url) == []


@pytest.mark.usefixtures("no_polls")
async def test_a_lost_subscription_is_renewed_and_waiters_keep_their_places(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    grant = await others.lease("feeds").acquire()
    first = await queued(locks, interlock_url)
    second = await queued(locks, interlock_url)
    order = queue(interlock_url)
    ended = next(pid for pid, what in sessions(interlock_url).items() if what == "listen")
    await asyncio.to_thread(end_session, interlock_url, "listen")
    await until(lambda: [what for pid, what in sessions(interlock_url).items() if pid != ended].count("listen") == 1)
    await until(lambda: len(set(execute(interlock_url, "SELECT listener FROM interlock.waiter"))) == 1)
    await until(lambda: queue(interlock_url) == order)
    await until(lambda: execute(interlock_url, "SELECT count(*) FROM interlock.waiters_v1('feeds')") == [(2,)])
    await grant.release()
    await (await first).release()
    await second


@pytest.mark.usefixtures("quick_polls")
async def test_a_queue_emptied_by_a_crash_fills_again(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    grant = await others.lease("feeds").acquire()
    waiter = await queued(locks, interlock_url)
    execute(interlock_url, "TRUNCATE interlock.waiter")
    await until(lambda: queue(interlock_url))
    await grant.release()
    await waiter


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_holders_and_waiters_survive_a_restart_of_the_server(
    mode: Literal["fast", "immediate"],
) -> None:
    with running_cluster() as cluster, fresh_database(url := cluster.url(tcp=True), make_template(url)) as url:
        locks, others = AsyncInterlock(url), AsyncInterlock(url)
        grant = await locks.lease("feeds", ttl=30, renew_every=0.2).acquire()
        waiter = await queued(others, url)
        await asyncio.to_thread(cluster.stop, mode)
        await asyncio.to_thread(cluster.start)
        renewed_at = grant.trusted_until
        await until(lambda: grant.trusted_until > renewed_at)
        await until(lambda: queue(url))
        await grant.release()
        assert (await waiter).token > grant.token
        await locks.close()
        await others.close()


async def test_waiters_without_a_subscription_poll(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "subscribe", UNREACHABLE, times=1000)
    grant = await others.lease("feeds").acquire()
    waiter = await queued(locks, interlock_url)
    assert "listen" not in sessions(interlock_url).values()
    await grant.release()
    await waiter


@pytest.mark.usefixtures("quick_polls")
async def test_the_cost_of_polls_does_not_grow_with_the_number_of_waiters(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = count_calls(monkeypatch, "acquire")
    grant = await others.lease("feeds").acquire()

    async def work() -> None:
        async with locks.lease("feeds"):
            pass

    workers = [asyncio.create_task(work()) for _ in range(50)]
    await until(lambda: len(queue(interlock_url)) == 50)
    asked = len(calls)
    await until(lambda: len(calls) >= asked + 5)
    assert all(len(asks) == 1 for (asks,) in calls[asked:])
    await grant.release()
    await asyncio.gather(*workers)


async def test_only_the_newest_contended_names_are_remembered(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "_MOST_CONTENDED", 2)
    for name in ("a", "b", "c"):
        held = await others.lease(name).acquire()
        first = await queued(locks, interlock_url, name)
        second = await queued(others, interlock_url, name)
        await held.release()
        await (await first).release()
        await (await second).release()
    assert set(locks.engine()._store._contended) <= {"b", "c"}  # type: ignore[attr-defined]


WAITERS = "SELECT holder, offered_at IS NULL FROM interlock.waiter WHERE name = 'reports' ORDER BY enqueued_at"


async def test_all_waiters_of_a_process_that_was_given_up_by_mistake_enter_the_queue_again(
    interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The waiter that did not come is an entry that this test puts into the queue under the process's listener."""
    monkeypatch.setattr(wait_queue, "_POLL_EVERY", 3600.0)
    async with AsyncInterlock(interlock_url) as holder, AsyncInterlock(interlock_url, replica="waiter") as waiter:
        reports = await holder.lease("reports").acquire()
        feeds = await holder.lease("feeds").acquire()
        waiting = asyncio.create_task(waiter.lease("reports").acquire(timeout=30).__aenter__())
        await until(lambda: execute(interlock_url, WAITERS) == [("waiter", True)])
        execute(
            interlock_url,
            "INSERT INTO interlock.waiter (grant_id, name, enqueued_at, listener, seen_at, offered_at)"
            " SELECT gen_random_uuid(), 'feeds', now(), listener, now(), now() - interval '2 seconds'"
            " FROM interlock.waiter",
        )
        assert await feeds.release()
        await until(lambda: execute(interlock_url, WAITERS) == [("waiter", True)])
        assert await reports.release()
        assert (await waiting).token > reports.token
