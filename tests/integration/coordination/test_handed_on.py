"""A lease that its holder hands on: whoever waited has it without asking, and makes it last."""

import asyncio
from uuid import UUID, uuid4

import pytest

from interlock import AsyncInterlock
from interlock.coordination import engine, waiting
from interlock.coordination.grant import AsyncGrant
from interlock.stores.leases import Handed
from interlock.stores.postgres import leases
from interlock.stores.postgres.leases import PostgresLeases
from interlock.stores.postgres.line import Line
from interlock.stores.postgres.session import Row
from support.holding import count_calls, holder, queue, until
from support.postgres import execute


async def queued(locks: AsyncInterlock, url: str) -> "asyncio.Task[AsyncGrant]":
    async def acquire() -> AsyncGrant:
        return await locks.lease("feeds", ttl=30).acquire()

    task = asyncio.create_task(acquire())
    await until(lambda: len(queue(url)) == 1)
    return task


@pytest.fixture(autouse=True)
def wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds it has had to wait for it."""
    monkeypatch.setattr(PostgresLeases, "_wanted", property(lambda _: {"feeds"}, lambda *_: None), raising=False)


async def test_whoever_waited_has_it_without_asking_and_then_for_its_whole_length(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = await locks.lease("feeds").acquire()
    task = await queued(others, interlock_url)
    asked = count_calls(monkeypatch, "acquire")
    await held.release()
    grant = await task
    assert asked == []
    assert grant.token > held.token
    renewed = asyncio.Event()
    if grant.remaining < 1:
        grant.on_renewed(lambda _: renewed.set())
        await renewed.wait()
    assert grant.remaining > 20
    grant.check()


async def test_only_who_had_to_wait_expects_others_to_wait(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handing on costs a little, and mostly nobody is there."""
    monkeypatch.undo()
    queries: list[str] = []
    fetch = PostgresLeases._fetch

    async def note(store: PostgresLeases, line: Line, query: str, *args: object) -> list[Row]:
        queries.append(query)
        return await fetch(store, line, query, *args)

    held = await locks.lease("feeds").acquire()
    task = await queued(others, interlock_url)
    monkeypatch.setattr(PostgresLeases, "_fetch", note)
    await held.release()
    await (await task).release()
    await (await others.lease("feeds").acquire()).release()
    assert [query for query in queries if query in ("release_one", "hand_on")] == [
        "release_one",
        "hand_on",
        "release_one",
    ]


async def test_what_is_given_back_at_once_is_not_renewed_before(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_BRIEFLY_HELD", 0.5)
    held = await locks.lease("feeds").acquire()
    task = await queued(others, interlock_url)
    renewed = count_calls(monkeypatch, "renew")
    await held.release()
    await (await task).release()
    assert (renewed, holder(interlock_url)) == ([], None)


async def test_a_grant_that_cannot_be_renewed_is_lost_before_another_could_have_it(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = await locks.lease("feeds").acquire()
    task = await queued(others, interlock_url)
    monkeypatch.setattr(engine, "_BRIEFLY_HELD", 3600.0)
    await held.release()
    grant = await task
    assert await grant.wait_lost() == "expired"
    ends = "SELECT expires_at > clock_timestamp() FROM interlock.lease WHERE name = 'feeds'"
    assert grant.remaining == 0
    await until(lambda: execute(interlock_url, ends) == [(False,)])


async def test_an_old_word_is_not_believed(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was handed on, and the word of it comes when another has the lease."""
    words: list[tuple[UUID | None, Handed | None]] = []
    heard = leases._heard

    def keep(payload: str) -> tuple[UUID | None, Handed | None]:
        words.append(heard(payload))
        return uuid4(), None

    monkeypatch.setattr(waiting, "_LOOK_AGAIN", 3600.0)
    held = await locks.lease("feeds").acquire()
    task = await queued(others, interlock_url)
    monkeypatch.setattr(leases, "_heard", keep)
    await held.release()
    await until(lambda: words)
    await until(lambda: holder(interlock_url) is None)
    monkeypatch.setattr(leases, "_heard", heard)
    thief = await locks.lease("feeds").acquire()
    others.engine()._room.call(*words[0])
    await until(lambda: len(queue(interlock_url)) == 1)
    assert not task.done()
    await thief.release()
    assert (await task).token > thief.token
