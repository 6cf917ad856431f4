"""PostgreSQL crashes and comes back while several processes take turns with leases."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from interlock import AsyncInterlock
from interlock.clock import boottime
from interlock.coordination.events import Event, RenewalFailed
from interlock.embedded import Cluster
from support.crashes import careless_server, crash
from support.histories import counts, violations
from support.history_recorder import Recorder, recorded
from support.lease_worker import LEDGER, ended, ledger, workers
from support.postgres import execute
from support.sql_leases import row
from support.waiting import eventually

WAITERS = "SELECT count(*) FROM interlock.waiters_v1(%s)"
NAMES = ["one", "two", "three"]


@pytest.fixture
def server() -> Iterator[Cluster]:
    with careless_server() as server:
        execute(server.url(), LEDGER)
        execute(server.url(), "CHECKPOINT")
        yield server


@pytest.mark.exhaustive
def test_no_acknowledged_grant_is_lost_in_crashes_under_load(server: Cluster, tmp_path: Path) -> None:
    url = server.url(tcp=True)
    watcher = Recorder(tmp_path, "watcher")

    def each_was_granted(more: int, after: float) -> bool:
        for name in NAMES:
            began_at = boottime()
            if found := execute(url, "SELECT grant_id FROM interlock.lease WHERE name = %s", name):
                watcher.seen(name, found[0][0], began_at=began_at)
        grants = [event for event in recorded(tmp_path) if event.kind == "granted" and event.at > after]
        return all(sum(grant.process == f"worker-{number}" for grant in grants) >= more for number in range(4))

    with workers(url, tmp_path, count=4, names=NAMES, ttl=2) as running:
        eventually(partial(each_was_granted, 10, 0.0))
        for _ in range(3):
            crash(server)
            eventually(partial(each_was_granted, 10, boottime()), within=40)
        ends = [ended(process) for process in running]
        assert [(status, "Traceback" in complaint) for status, complaint in ends] == [(0, False)] * 4, ends
    events = recorded(tmp_path)
    assert violations(events, ledger(url)) == []
    assert counts(events)["acknowledged"] > 100


async def test_a_holder_keeps_its_lease_through_a_crash_and_a_failed_renewal(server: Cluster) -> None:
    events: list[Event] = []
    async with AsyncInterlock(server.url(tcp=True), on_event=events.append) as locks:
        grant = await locks.lease("feeds", ttl=12).acquire()
        await asyncio.to_thread(server.stop, "immediate")
        await asyncio.to_thread(eventually, lambda: any(isinstance(event, RenewalFailed) for event in events))
        await asyncio.to_thread(server.start)
        before = row(server.url(), "feeds")
        assert before.grant_id == grant.grant_id
        await asyncio.to_thread(eventually, lambda: row(server.url(), "feeds").renewed_at != before.renewed_at)
        assert not grant.lost
        assert await grant.release()


async def test_a_waiter_queues_again_after_a_crash_and_is_notified(server: Cluster) -> None:
    """Its queue entry is lost in the crash, and so is the session for the notification."""
    url = server.url(tcp=True)
    async with AsyncInterlock(url) as holder, AsyncInterlock(url) as other:
        grant = await holder.lease("feeds", ttl=20).acquire()
        waiting = asyncio.create_task(other.lease("feeds", ttl=20).acquire(timeout=30).__aenter__())
        await asyncio.to_thread(eventually, lambda: execute(url, WAITERS, "feeds") == [(1,)])
        await asyncio.to_thread(crash, server)
        await asyncio.to_thread(eventually, lambda: execute(url, WAITERS, "feeds") == [(1,)])
        assert not waiting.done()
        assert await grant.release()
        assert (await waiting).token > grant.token
