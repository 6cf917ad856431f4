"""Primitives that use leases, on every store."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from conformance.programs import Program
from conformance.stores import KINDS
from interlock import AsyncGrant, AsyncInterlock, Interlock, LeaseLost
from interlock.coordination.events import Event, Waiting


async def until(look: Callable[[], Any]) -> None:
    while not look():  # noqa: ASYNC110 - there is no signal for it
        await asyncio.sleep(0.01)


@pytest.mark.guarantee("semaphore", "never more holders than slots")
async def test_as_many_work_as_there_are_slots_and_no_more(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    inside, most, runs = 0, 0, 0

    async def work(root: AsyncInterlock) -> None:
        nonlocal inside, most, runs
        for _ in range(4):
            async with root.lease("openai", slots=3):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.005)
                inside -= 1
                runs += 1

    await asyncio.gather(*(work(root) for root in (locks, others) * 4))
    assert most <= 3
    assert runs == 32
    grants = [await root.lease("openai", slots=3).acquire() for root in (locks, others, locks)]
    assert await others.lease("openai", slots=3).try_acquire() is None
    for grant in grants:
        await grant.release()


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.guarantee("semaphore", "waiters are served in order of arrival")
async def test_no_process_comes_twice_before_a_waiter(url: str) -> None:
    """Each process wants a slot again as soon as it has had one.

    A process that is stopped for a second loses its position, which a busy machine may cause now and then; if newcomers
    were served first, a quarter of all waits would be too long.
    """
    workers = "abcdef"
    waits: dict[str, Counter[str]] = {}
    worst: Counter[str] = Counter()

    async def work(who: str) -> None:
        async with AsyncInterlock(url, replica=who, on_event=partial(queued, who)) as locks:
            for _ in range(30):
                async with locks.lease("openai", slots=2):
                    worst.update({who: max(waits.pop(who, Counter()).values(), default=0) > 1})
                    for passed in waits.values():
                        passed[who] += 1

    def queued(who: str, event: Event) -> None:
        if isinstance(event, Waiting):
            waits.setdefault(who, Counter())

    await asyncio.gather(*map(work, workers))
    assert worst.total() < 10, f"others came twice before one who waited: {worst}"


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.guarantee("semaphore", "a killed holder's slot becomes free")
async def test_the_slot_of_a_killed_process_goes_to_a_waiter(
    locks: AsyncInterlock, process: Callable[..., Program]
) -> None:
    lease = locks.lease("openai", slots=2)
    mine = await lease.acquire()
    holder = process("openai", ttl=4, slots=2)
    assert (await asyncio.to_thread(holder.line))[0] == "held"
    assert await lease.try_acquire() is None
    holder.kill()
    again = await lease.acquire()
    assert again.name != mine.name
    await again.release()
    await mine.release()


@pytest.mark.guarantee("election", "one leader at a time, and another when it goes")
async def test_leaders_follow_one_another(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    terms: list[tuple[str, int]] = []
    leading: set[str] = set()

    queued = {"one": asyncio.Event(), "two": asyncio.Event()}

    async def campaign(root: AsyncInterlock, who: str, rival: str) -> None:
        root.engine()
        root._observer._hook = lambda event: queued[who].set() if isinstance(event, Waiting) else None
        async for term in root.lease("scheduler").terms():
            async with term as grant:
                leading.add(who)
                assert leading == {who}
                terms.append((who, grant.token))
                if len(terms) == 6:
                    return
                await queued[rival].wait()  # until this block may leave
                queued[rival].clear()
                leading.discard(who)

    rivals = ((locks, "one", "two"), (others, "two", "one"))
    campaigns = [asyncio.create_task(campaign(*each)) for each in rivals]
    await asyncio.wait(campaigns, return_when=asyncio.FIRST_COMPLETED)
    for task in campaigns:
        task.cancel()
    await asyncio.gather(*campaigns, return_exceptions=True)
    tokens = [token for _, token in terms]
    assert tokens == sorted(set(tokens))
    assert {who for who, _ in terms} == {"one", "two"}


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.guarantee("election", "a killed leader is followed by another")
async def test_a_waiter_leads_after_the_leader_was_killed(
    locks: AsyncInterlock, process: Callable[..., Program]
) -> None:
    leader = process("scheduler", ttl=1)
    _, token = await asyncio.to_thread(leader.line)
    election = locks.lease("scheduler").terms()
    leader.kill()
    async for term in election:
        async with term as grant:
            assert grant.token > int(token)
            assert election.is_leader
        break
    assert not election.is_leader


@pytest.mark.guarantee("run once", "the first call runs, and all others get its result")
async def test_calls_at_the_same_time_run_it_once(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    calls = []

    async def charge(order: int) -> dict[str, int]:
        calls.append(order)
        await asyncio.sleep(0.02)
        return {"paid": order}

    roots = (locks, others) * 4
    results = await asyncio.gather(*(root.once("charge:7", charge, 7) for root in roots))
    assert results == [{"paid": 7}] * 8
    assert await others.once("charge:7", charge, 7) == {"paid": 7}
    assert calls == [7]


@pytest.mark.guarantee("run once", "another takes over when it fails")
async def test_a_failure_is_not_recorded(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    calls = []

    async def charge() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("no money")
        return len(calls)

    with pytest.raises(RuntimeError):
        await locks.once("charge:8", charge)
    assert await others.once("charge:8", charge) == 2
    assert await locks.once("charge:8", charge) == 2


@pytest.mark.guarantee("periodic singleton", "each tick is run by one replica")
async def test_no_tick_is_run_twice(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    ticks: list[datetime | None] = []
    running: list[int] = []

    def sweeping(root: AsyncInterlock) -> Any:
        async def sweep(grant: AsyncGrant) -> None:
            running.append(1)
            assert len(running) == 1
            ticks.append(periodic.tick)
            await asyncio.sleep(0.01)
            running.pop()

        periodic = root.every(0.2, "sweep")(sweep)
        return periodic

    async with sweeping(locks), sweeping(others):
        await until(lambda: len(ticks) >= 5)
    assert len(set(ticks)) == len(ticks)
    assert ticks == sorted(tick for tick in ticks if tick)


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.guarantee("periodic singleton", "a clock that was ahead for a moment does not stop it")
async def test_a_tick_that_is_recorded_far_ahead_is_not_waited_for(
    locks: AsyncInterlock, others: AsyncInterlock
) -> None:
    ticks: list[datetime] = []

    def sweeping(root: AsyncInterlock) -> Any:
        async def sweep(grant: AsyncGrant) -> None:
            assert periodic.tick is not None
            ticks.append(periodic.tick)

        periodic = root.every(0.2, "sweep")(sweep)
        return periodic

    tomorrow = datetime.now(UTC) + timedelta(days=1)
    async with locks.lease("sweep") as grant:
        ahead = json.dumps({"tick": tomorrow.timestamp(), "finished": True})
        await locks.engine().records.write("sweep##every", ahead, grant)
    async with sweeping(locks), sweeping(others):
        await until(lambda: len(ticks) >= 5)
    assert all(tick < tomorrow for tick in ticks)
    assert ticks == sorted(set(ticks))


@pytest.mark.guarantee("several leases", "all or none, and never a deadlock")
async def test_several_are_held_together_or_not_at_all(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    async with locks.lease("b"):
        assert await others.leases("a", "b").try_acquire() is None
    held: set[str] = set()

    async def work(root: AsyncInterlock, *names: str) -> None:
        for _ in range(5):
            async with root.leases(*names) as grants:
                assert not held & set(names)
                held.update(names)
                grants.check()
                await asyncio.sleep(0)
                held.difference_update(names)

    await asyncio.gather(work(locks, "a", "b"), work(others, "b", "a"), work(locks, "b", "c"), work(others, "c", "a"))


@pytest.mark.guarantee("membership", "live members are listed, and former ones are not")
async def test_members_come_and_go(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    async with locks.join("workers", id="a", metadata={"zone": 1}), others.join("workers", id="b"):
        found = await others.members("workers")
        assert [(member.id, member.metadata) for member in found] == [("a", {"zone": 1}), ("b", None)]
    assert await locks.members("workers") == []


@pytest.mark.guarantee("read/write lease", "a writer is alone, and readers are together")
async def test_readers_share_it_and_a_writer_does_not(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    reading, writing, together = set[int](), set[int](), asyncio.Barrier(4)
    roots = (locks, others, locks, others)

    async def read(root: AsyncInterlock, who: int, *, meet: bool) -> None:
        async with root.shared("catalog", readers=4).read():
            reading.add(who)
            assert not writing
            if meet:
                await together.wait()
            reading.discard(who)

    async def write(root: AsyncInterlock, who: int) -> None:
        async with root.shared("catalog", readers=4).write():
            writing.add(who)
            assert writing == {who}
            assert not reading
            await asyncio.sleep(0.005)
            writing.discard(who)

    await asyncio.gather(*(read(root, who, meet=True) for who, root in enumerate(roots)))
    await asyncio.gather(
        *(read(root, who, meet=False) for who, root in enumerate(roots)),
        *(write(root, who) for who, root in enumerate(roots)),
    )


@pytest.mark.guarantee("guard", "several leases are guarded together")
async def test_a_guard_of_several_is_a_guard_of_each(url: str, kind: str, locks: AsyncInterlock) -> None:
    connect = KINDS[kind].connect
    if connect is None:
        pytest.skip("there is no guard of this kind")

    def write(sync: Interlock) -> None:
        connection = connect(url)
        try:
            with sync.leases("a", "b") as grants:
                grants.guard(connection)
                connection.commit()
                stale = grants
            with pytest.raises(LeaseLost):
                stale.guard(connection)
            connection.rollback()
        finally:
            connection.close()

    await locks.open()
    with Interlock(url) as sync:
        await asyncio.to_thread(write, sync)


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.guarantee("read/write lease", "a writer that waits is not overtaken by readers")
async def test_readers_that_come_later_wait_for_a_writer(locks: AsyncInterlock, others: AsyncInterlock) -> None:
    order: list[str] = []

    async def enter(root: AsyncInterlock, side: str) -> None:
        catalog = root.shared("catalog", readers=3)
        async with catalog.read() if side == "reader" else catalog.write():
            order.append(side)

    first = await locks.shared("catalog", readers=3).read().acquire()
    writer = asyncio.create_task(enter(others, "writer"))
    door = locks.shared("catalog", readers=3).write()
    while [lease.holder for lease in await door.holders()] != ["two"]:  # noqa: ASYNC110 - there is no signal for it
        await asyncio.sleep(0.01)
    assert await locks.shared("catalog", readers=3).read().try_acquire() is None
    reader = asyncio.create_task(enter(others, "reader"))
    await asyncio.sleep(0)
    await first.release()
    await asyncio.gather(writer, reader)
    assert order == ["writer", "reader"]


@pytest.mark.guarantee("read/write lease", "a writer is alone also while replicas disagree on `readers`")
async def test_a_writer_waits_for_places_that_only_others_know_of(
    locks: AsyncInterlock, others: AsyncInterlock
) -> None:
    greater, smaller = locks.shared("catalog", readers=3), others.shared("catalog", readers=1)
    readers = await asyncio.gather(*(greater.read().acquire() for _ in range(3)))
    for reader in sorted(readers, key=lambda grant: grant.name):  # the one that both know of first
        assert await smaller.write().try_acquire() is None
        await reader.release()
    writer = await smaller.write().acquire()
    assert await greater.read().try_acquire() is None
    await writer.release()
    again = await greater.read().acquire()
    assert await smaller.write().try_acquire() is None
    await again.release()
