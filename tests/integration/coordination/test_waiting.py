"""Waiting for one's turn: first come, first served, woken by the release, and not held up by the dead."""

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
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_queue, "_POLL_EVERY", 0.3)


@pytest.mark.usefixtures("no_looks")
async def test_the_release_wakes_who_waits(locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str) -> None:
    grant = await locks.lease("feeds").acquire()
    waiters = [await queued(locks, interlock_url), await queued(others, interlock_url)]
    for waiter in waiters:
        await grant.release()
        grant = await waiter
        assert holder(interlock_url) == grant.grant_id
    assert queue(interlock_url) == []


@pytest.mark.usefixtures("no_looks")
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
async def test_who_tries_never_overtakes_who_waits(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = stop_before(monkeypatch, "acquire")
    stop.armed = False
    grant = await others.lease("feeds").acquire()
    waiter = await queued(locks, interlock_url)
    stop.armed = True
    await grant.release()
    await stop.reached()  # it was told, and has not taken it yet
    assert holder(interlock_url) is None
    assert ask(interlock_url, "feeds", ttl=30).status == "busy"
    stop.go()
    await waiter


@pytest.mark.usefixtures("no_looks")
async def test_who_waits_has_the_lease_of_a_dead_holder_when_that_expires(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    dead = ask(interlock_url, "feeds", ttl=0.5)
    grant = await locks.lease("feeds").acquire()
    assert grant.token > dead.token


@pytest.mark.usefixtures("quick_looks")
async def test_somebody_still_looks_when_the_look_out_has_got_what_it_looked_for(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    """A lease that was broken is not offered to anybody when it expires."""
    ask(interlock_url, "feeds", ttl=3600)
    first = await queued(locks, interlock_url, ttl=1)
    second = await queued(locks, interlock_url)
    execute(interlock_url, "UPDATE interlock.lease SET expires_at = interlock.now_v1()")
    grant = await first
    execute(interlock_url, "SELECT interlock.break_v1('feeds', false, false, 'a test', 'me')")
    await until(lambda: grant.lost)
    assert (await second).token > grant.token


@pytest.mark.usefixtures("no_looks")
async def test_waiters_whose_process_died_are_passed_over_at_once(
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
def somebody_who_hears_and_never_comes(url: str) -> Iterator[None]:
    with psycopg.connect(url, autocommit=True) as ear:
        ear.execute("SELECT interlock.listen_v1(7)")
        asleep = "INSERT INTO interlock.waiter VALUES (%s, 'feeds', interlock.now_v1(), 7, interlock.now_v1())"
        execute(url, asleep, uuid4())
        yield


@pytest.mark.usefixtures("no_looks")
async def test_a_waiter_that_stands_still_is_passed_over_after_a_second(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    grant = await others.lease("feeds").acquire()
    with somebody_who_hears_and_never_comes(interlock_url):
        waiter = await queued(locks, interlock_url)
        await grant.release()
        await waiter
        assert queue(interlock_url) == []


@pytest.mark.usefixtures("no_looks")
async def test_an_ear_that_was_cut_off_is_opened_again_and_nobody_loses_its_place(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    grant = await others.lease("feeds").acquire()
    first = await queued(locks, interlock_url)
    second = await queued(locks, interlock_url)
    order = queue(interlock_url)
    deaf = next(pid for pid, what in sessions(interlock_url).items() if what == "listen")
    await asyncio.to_thread(end_session, interlock_url, "listen")
    await until(lambda: [what for pid, what in sessions(interlock_url).items() if pid != deaf].count("listen") == 1)
    await until(lambda: len(set(execute(interlock_url, "SELECT listener FROM interlock.waiter"))) == 1)
    await until(lambda: queue(interlock_url) == order)
    await until(lambda: execute(interlock_url, "SELECT count(*) FROM interlock.waiters_v1('feeds')") == [(2,)])
    await grant.release()
    await (await first).release()
    await second


@pytest.mark.usefixtures("quick_looks")
async def test_a_queue_that_a_crash_has_emptied_fills_again(
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
async def test_a_restart_of_the_server_is_survived_by_who_holds_and_who_waits(
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


async def test_without_an_ear_it_is_asked_for_now_and_then(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "subscribe", UNREACHABLE, times=1000)
    grant = await others.lease("feeds").acquire()
    waiter = await queued(locks, interlock_url)
    assert "listen" not in sessions(interlock_url).values()
    await grant.release()
    await waiter


@pytest.mark.usefixtures("quick_looks")
async def test_a_look_costs_the_same_however_many_wait_for_that_name(
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


async def test_of_what_was_waited_for_only_the_newest_is_remembered(
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
