"""A process whose waiter did not come when it was called is given up as a whole; if it lives, its waiters return."""

import asyncio

import pytest

from interlock import AsyncInterlock
from interlock.coordination.engine import queue as wait_queue
from support.postgres import execute
from support.waiting import eventually

QUEUE = "SELECT holder, offered_at IS NULL FROM interlock.waiter WHERE name = 'reports' ORDER BY enqueued_at"


async def test_all_waiters_of_a_process_that_was_given_up_by_mistake_queue_again(
    interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that did not come is a ghost: somebody left it in the queue with this process' number."""
    monkeypatch.setattr(wait_queue, "_POLL_EVERY", 3600.0)
    async with AsyncInterlock(interlock_url) as holder, AsyncInterlock(interlock_url, replica="waiter") as waiter:
        reports = await holder.lease("reports").acquire()
        feeds = await holder.lease("feeds").acquire()
        waiting = asyncio.create_task(waiter.lease("reports").acquire(timeout=30).__aenter__())
        await asyncio.to_thread(eventually, lambda: execute(interlock_url, QUEUE) == [("waiter", True)])
        execute(
            interlock_url,
            "INSERT INTO interlock.waiter (grant_id, name, enqueued_at, listener, seen_at, offered_at)"
            " SELECT gen_random_uuid(), 'feeds', now(), listener, now(), now() - interval '2 seconds'"
            " FROM interlock.waiter",
        )
        assert await feeds.release()
        await asyncio.to_thread(eventually, lambda: execute(interlock_url, QUEUE) == [("waiter", True)])
        assert await reports.release()
        assert (await waiting).token > reports.token
