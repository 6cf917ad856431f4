"""Leases as users see them, on every store."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from interlock import AsyncGrant, AsyncInterlock, AsyncLease, Interlock, LeaseLost
from interlock.coordination.backends.choice import OpenStore
from interlock.coordination.events import Event, Waiting
from interlock.errors import DatabaseUnreachable, LeaseNested, LeaseTimeout

lease = "lease"


def store_of(locks: AsyncInterlock) -> OpenStore:
    locks.engine()
    return locks._stores[asyncio.get_running_loop()]


class Queue:
    """Tasks that wait for one lease, each begun when the one before it stands in the queue."""

    def __init__(self, url: str) -> None:
        self.served: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._url = url

    async def join(self, locks: AsyncInterlock, who: str) -> None:
        waits = asyncio.Event()
        locks._observer._hook = lambda event: waits.set() if isinstance(event, Waiting) else None
        self.tasks[who] = asyncio.create_task(self._wait(locks.lease("feeds"), who))
        await waits.wait()

    async def _wait(self, lease: AsyncLease, who: str) -> None:
        async with lease:
            self.served.append(who)


@pytest.mark.guarantee(lease, "waiters are served in order of arrival")
async def test_tasks_of_two_processes_are_served_in_turn(
    url: str, locks: AsyncInterlock, others: AsyncInterlock
) -> None:
    queue = Queue(url)
    order = ["a", "b", "c", "d", "e", "f"]
    async with locks.lease("feeds"):
        for place, who in enumerate(order):
            await queue.join((locks, others)[place % 2], who)
    await asyncio.gather(*queue.tasks.values())
    assert queue.served == order


@pytest.mark.guarantee(lease, "a waiter that gives up delays no other")
async def test_a_task_that_is_cancelled_while_it_waits_leaves_the_queue(
    url: str, locks: AsyncInterlock, others: AsyncInterlock
) -> None:
    queue = Queue(url)
    async with locks.lease("feeds"):
        for who in ("a", "b", "c"):
            await queue.join(others, who)
        queue.tasks["a"].cancel()
        await asyncio.wait([queue.tasks["a"]])
    await asyncio.gather(queue.tasks["b"], queue.tasks["c"])
    assert sorted(queue.served) == ["b", "c"]


@pytest.mark.guarantee(lease, "a waiter that gives up delays no other")
async def test_a_waiter_gets_an_error_after_its_timeout(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    async with locks.lease("feeds"):
        with pytest.raises(LeaseTimeout):
            await others.lease("feeds").acquire(timeout=0.2)
        assert await others.lease("feeds").try_acquire() is None
    grant = await others.lease("feeds").acquire(timeout=20)
    assert await grant.release()


@pytest.mark.guarantee(lease, "trust is counted from before the request")
async def test_an_answer_that_comes_late_is_trusted_for_less(
    locks: AsyncInterlock, store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire = type(store).acquire

    async def slowly(store: Any, asks: Sequence[Any]) -> Any:
        answers = await acquire(store, asks)
        await asyncio.sleep(0.5)
        return answers

    monkeypatch.setattr(type(store), "acquire", slowly)
    grant = await locks.lease("feeds", ttl=10).acquire()
    assert grant.remaining <= 10 - grant.timing.margin - 0.5
    await grant.release()


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.guarantee(lease, "the holder is notified before another gets the lease")
async def test_a_holder_that_cannot_renew_is_cancelled_before_the_next_has_the_lease(
    locks: AsyncInterlock, others: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[str] = []

    async def fail(*args: Any) -> Any:
        raise DatabaseUnreachable("It cannot be reached.")

    async def wait() -> AsyncGrant:
        grant = await others.lease("feeds", ttl=3).acquire()
        received.append("granted")
        return grant

    async def hold() -> None:
        async with locks.lease("feeds", ttl=3) as grant:
            grant.on_lost(received.append)
            waiters.append(asyncio.create_task(wait()))
            await asyncio.Event().wait()

    waiters: list[asyncio.Task[AsyncGrant]] = []
    monkeypatch.setattr(store_of(locks), "renew", fail)
    with pytest.raises(LeaseLost):
        await hold()
    await (await waiters[0]).release()
    assert received == ["expired", "granted"]


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.guarantee(lease, "a lease is kept as long as its holder works")
async def test_a_lease_that_is_renewed_outlives_its_ttl(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    async with locks.lease("feeds", ttl=4, renew_every=0.1) as grant:
        first, outlived = grant.trusted_until, asyncio.Event()
        grant.on_renewed(lambda until: outlived.set() if until > first + 4 else None)
        await outlived.wait()
        assert await others.lease("feeds").try_acquire() is None


@pytest.mark.guarantee(lease, "renewals of one process share a request")
async def test_a_round_renews_everything_with_one_request(
    locks: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(locks)
    renew, whole = store.renew, asyncio.Event()

    async def counted(grants: Sequence[Any], timeout: float) -> Any:
        if len(grants) == 50:
            whole.set()
        return await renew(grants, timeout)

    monkeypatch.setattr(store, "renew", counted)
    grants = await asyncio.gather(
        *(locks.lease(f"name {number}", ttl=30, renew_every=0.5).acquire() for number in range(50))
    )
    await whole.wait()
    assert not any(grant.lost for grant in grants)
    await asyncio.gather(*(grant.release() for grant in grants))


@pytest.mark.guarantee(lease, "a request that would wait for its own task is refused")
async def test_acquiring_a_lease_again_in_one_task_is_an_error(locks: AsyncInterlock) -> None:
    async with locks.lease("feeds"):
        with pytest.raises(LeaseNested):
            await locks.lease("feeds").acquire()
        assert await locks.lease("feeds").try_acquire() is None


@pytest.mark.guarantee(lease, "a lease can be handed over")
async def test_a_hand_over_needs_a_waiter(url: str, locks: AsyncInterlock, others: AsyncInterlock) -> None:
    queue = Queue(url)
    grant = await locks.lease("feeds").acquire()
    assert await grant.hand_over() is False
    assert not grant.lost
    await queue.join(others, "a")
    assert await grant.hand_over() is True
    await queue.tasks["a"]
    assert await grant.release() is False


@pytest.mark.guarantee(lease, "threads share a root object")
def test_threads_take_turns(url: str) -> None:
    inside = threading.Lock()
    tokens: list[int] = []

    def work(locks: Interlock) -> None:
        for _ in range(5):
            with locks.lease("feeds") as grant:
                assert inside.acquire(blocking=False)
                tokens.append(grant.token)
                inside.release()

    with Interlock(url) as one, Interlock(url) as two, ThreadPoolExecutor(6) as threads:
        for done in [threads.submit(work, locks) for locks in (one, two, one, two, one, two)]:
            done.result()
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 30


@pytest.mark.guarantee(lease, "a block with an unconfirmed release is followed by the next in order")
async def test_a_try_after_a_block_that_does_not_wait_for_its_end_finds_the_lease_free(locks: AsyncInterlock) -> None:
    lease = locks.lease("feeds", confirm_release=False)
    tokens = []
    for _ in range(5):
        async with lease as grant:
            tokens.append(grant.token)
        tried = await lease.try_acquire()
        assert tried is not None
        tokens.append(tried.token)
        await tried.release()
    assert tokens == sorted(set(tokens))


@pytest.mark.guarantee(lease, "a block with an unconfirmed release is followed by the next in order")
async def test_a_block_that_does_not_wait_for_its_end_releases_to_a_waiter(
    url: str, locks: AsyncInterlock, others: AsyncInterlock
) -> None:
    queue = Queue(url)
    async with locks.lease("feeds", confirm_release=False):
        await queue.join(others, "a")
    async with asyncio.timeout(60):
        await queue.tasks["a"]


@pytest.mark.guarantee(lease, "a block with an unconfirmed release is followed by the next in order")
def test_closing_releases_the_leases_that_threads_released(url: str) -> None:
    with Interlock(url) as locks, ThreadPoolExecutor(3) as threads:

        def work(name: str) -> None:
            for _ in range(5):
                with locks.lease(name, confirm_release=False):
                    pass

        list(threads.map(work, ["feeds", "bills", "feeds"]))
    with Interlock(url) as others:
        assert others.lease("feeds").try_acquire() is not None
        assert others.lease("bills").try_acquire() is not None


@pytest.mark.guarantee(lease, "events are reported")
async def test_the_events_of_a_lease_are_reported(url: str) -> None:
    received: list[Event] = []
    async with AsyncInterlock(url, on_event=received.append) as locks, locks.lease("feeds"):
        pass
    assert [event.kind for event in received] == ["acquired", "released"]
