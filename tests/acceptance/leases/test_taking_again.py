"""PostgreSQL crashes, or a standby takes over, while leases are let go of and taken again at once, by one statement."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from interlock import AsyncInterlock, AsyncLease
from interlock.coordination.grant import AsyncGrant
from interlock.embedded import Cluster
from interlock.schema import whole_schema
from support.crashing import careless_server, crash
from support.histories import violations
from support.holding import statements, stop_before, until
from support.lease_hammer import faults, prepare
from support.lease_worker import Worker, ended, workers
from support.postgres import execute
from support.recording import Event, Recorder, recorded
from support.replication import Pair, primary_and_standby
from support.waiting import eventually

NAMES = ["one", "two", "three", "own", "shared"]
ANEW = """
    SELECT name FROM change WHERE position > %s AND token <> old_token AND statement LIKE '%%.again_%%'
     GROUP BY name HAVING count(*) >= 10 ORDER BY name
"""
LAST = "SELECT coalesce(max(position), 0) FROM change"
GRANTS = "SELECT DISTINCT name, token, grant_id::text FROM change WHERE token <> old_token"
SINCE_THE_PROMOTION = f"{GRANTS} AND timeline = interlock.timeline_v1()"


@pytest.fixture
def server() -> Iterator[Cluster]:
    with careless_server() as server:
        prepare(server.url())
        execute(server.url(), "CHECKPOINT")
        yield server


@pytest.fixture
def pair() -> Iterator[Pair]:
    with primary_and_standby(synchronous=False) as pair:
        execute(pair.url, whole_schema("interlock"))
        prepare(pair.url)
        pair.wait_caught_up()
        yield pair


@contextmanager
def brisk_workers(url: str, directory: Path) -> Iterator[list[Worker]]:
    """One whose tasks share their statements, one by itself, and one to whom another comes now and then."""
    start = partial(workers, url, directory, count=1, ttl=2, writes=False)
    brisk = partial(start, brisk=True, linger=0.005)
    with ExitStack() as stack:
        yield [
            *stack.enter_context(brisk(names=["one", "two", "three"], tasks=3, steady=True)),
            *stack.enter_context(brisk(names=["own"], first=1)),
            *stack.enter_context(brisk(names=["shared"], first=2)),
            *stack.enter_context(start(names=["shared"], first=3, linger=0.02, rest=0.2)),
        ]


def all_go_on(url: str) -> None:
    """Return when each lease was granted anew several times from here on."""
    [[last]] = execute(url, LAST)
    eventually(lambda: [name for (name,) in execute(url, ANEW, last)] == sorted(NAMES), within=40)


def all_end(running: Sequence[Worker]) -> None:
    ends = [ended(worker) for worker in running]
    assert [(status, "Traceback" in complaint) for status, complaint in ends] == [(0, False)] * len(running), ends


def told(events: Sequence[Event]) -> set[tuple[str, int, str]]:
    """The grants that a worker has heard of."""
    return {(event.name, event.token, event.grant_id) for event in events if event.kind == "granted"}


def are_above(url: str, before: set[tuple[str, int, str]], names: Sequence[str]) -> bool:
    """Whether, on this new primary, each of the names was granted, with tokens above all that were told `before`."""
    since = execute(url, SINCE_THE_PROMOTION)
    highest = {name: max(token for of, token, _ in before if of == name) for name in names}
    assert {name for name, _, _ in since} == set(names)
    return all(token > highest[name] for name, token, _ in since)


def test_no_grant_is_lost_and_no_token_goes_back_in_crashes(server: Cluster, tmp_path: Path) -> None:
    url = server.url(tcp=True)
    with brisk_workers(url, tmp_path) as running:
        all_go_on(url)
        for _ in range(4):
            crash(server)
            all_go_on(url)
        all_end(running)
    events = recorded(tmp_path)
    assert violations(events) == []
    assert faults(url) == {}
    assert told(events) - set(execute(url, GRANTS)) == set()


def test_after_a_promotion_under_load_all_are_held_back_and_go_on_above_every_token(pair: Pair, tmp_path: Path) -> None:
    """The standby lacks the newest grants, for it was cut off a while before."""
    with brisk_workers(pair.url, tmp_path) as running:
        all_go_on(pair.primary_url)
        pair.freeze()
        all_go_on(pair.primary_url)
        pair.stop_primary()
        pair.promote()
        all_go_on(pair.standby_url)
        all_end(running)
    events = recorded(tmp_path)
    before = told(events) - set(execute(pair.standby_url, SINCE_THE_PROMOTION))
    assert before - set(execute(pair.standby_url, GRANTS)), "nothing was lost"
    assert violations(events) == []
    assert faults(pair.standby_url) == {}
    assert are_above(pair.standby_url, before, NAMES)


async def take(lease: AsyncLease, recorder: Recorder) -> AsyncGrant:
    grant = await lease.acquire(timeout=40)
    recorder.granted(grant)
    return grant


async def take_again(lease: AsyncLease, grant: AsyncGrant, recorder: Recorder) -> AsyncGrant:
    """At once, after the end of its block."""
    recorder.ended(grant)
    await grant.__aexit__(None, None, None)
    return await take(lease, recorder)


@pytest.mark.parametrize(("again", "processes"), [("again_one", 3), ("again_many", 1)])
async def test_what_is_taken_again_on_the_new_primary_is_held_back_whether_or_not_it_knows_the_grant(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: str, processes: int
) -> None:
    """All hold when the standby takes over, and no heartbeat tells it before that the timeline is another one."""
    recorder = Recorder(tmp_path, "all")
    asked, heartbeats = statements(monkeypatch), stop_before(monkeypatch, "renew")
    async with AsyncExitStack() as stack:
        *roots, other = [await stack.enter_async_context(AsyncInterlock(pair.url)) for _ in range(processes + 1)]
        cut_off = await stack.enter_async_context(AsyncInterlock(pair.primary_url))
        stack.callback(heartbeats.go)
        brisk: dict[str, Any] = {"ttl": 6, "confirm_release": False}
        leases = [locks.lease(name, **brisk) for name, locks in zip(NAMES, islice(cycle(roots), 3), strict=False)]
        trusted = cut_off.lease("shared", **brisk)

        async def all_again(held: Sequence[AsyncGrant]) -> list[AsyncGrant]:
            both = zip(leases, held, strict=True)
            return await asyncio.gather(*(take_again(lease, grant, recorder) for lease, grant in both))

        held = [await take(lease, recorder) for lease in leases]
        last = await take(trusted, recorder)
        await asyncio.to_thread(pair.wait_caught_up)
        pair.freeze()
        held[2] = await take_again(leases[2], held[2], recorder)
        await take_again(trusted, last, recorder)
        before = told(recorded(tmp_path))
        await asyncio.to_thread(pair.stop_primary)
        await asyncio.to_thread(pair.promote)

        asked.clear()
        going_on = asyncio.create_task(all_again(held))
        await until(lambda: any(statement.startswith("release") for statement in asked))
        waiting = asyncio.create_task(take(other.lease("shared", ttl=6), recorder))
        held = await going_on
        assert faults(pair.standby_url) == {}
        await all_again(held)
        await waiting
        assert asked.count(again) == 2 * processes
    assert violations(recorded(tmp_path)) == []
    assert faults(pair.standby_url) == {}
    assert are_above(pair.standby_url, before, [*NAMES[:3], "shared"])
