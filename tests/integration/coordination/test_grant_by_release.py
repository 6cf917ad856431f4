"""Leases granted by a release: the waiter holds the lease without a request, and renews it."""

import asyncio
from collections.abc import Sequence
from uuid import UUID, uuid4

import psycopg
import pytest

from interlock import AsyncInterlock, errors
from interlock.coordination.engine import acquisition, deferred
from interlock.coordination.engine import queue as wait_queue
from interlock.stores.leases import HandedGrant
from interlock.stores.postgres import leases
from interlock.stores.postgres.leases import PostgresLeases
from interlock.stores.postgres.managed_connection import ManagedConnection
from interlock.stores.postgres.session import Row
from support.lease_engine import count_calls, holder, queue, queued, until, until_answered
from support.postgres import execute
from support.protocol import rewrite

STOLEN = """
    UPDATE interlock.lease
       SET token = token + 1, grant_id = gen_random_uuid(), ttl = 3600,
           expires_at = clock_timestamp() + interval '1 hour'
"""


@pytest.fixture(autouse=True)
def wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every holder has had to wait for its lease."""
    monkeypatch.setattr(
        PostgresLeases, "_contended", property(lambda _: {"feeds": None}, lambda *_: None), raising=False
    )


@pytest.mark.usefixtures("slow_machine")
async def test_a_waiter_gets_the_lease_without_a_request_and_then_its_whole_ttl(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested = count_calls(monkeypatch, "acquire")  # before the root objects are used: they take the method then
    held = await locks.lease("feeds").acquire()
    task = await queued(others, interlock_url)
    requested.clear()
    await held.release()
    grant = await task
    assert requested == []
    assert grant.token > held.token
    renewed = asyncio.Event()
    if grant.remaining < 10:
        grant.on_renewed(lambda _: renewed.set())
        await renewed.wait()
    assert grant.remaining > 10
    grant.check()


async def test_only_a_holder_that_had_to_wait_expects_other_waiters(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Granting by release costs a little, and mostly no process waits."""
    monkeypatch.undo()
    queries: list[str] = []
    fetch = PostgresLeases._fetch

    async def note(store: PostgresLeases, line: ManagedConnection, query: str, *args: object) -> list[Row]:
        queries.append(query)
        return await fetch(store, line, query, *args)

    held = await locks.lease("feeds").acquire()
    task = await queued(others, interlock_url)
    monkeypatch.setattr(PostgresLeases, "_fetch", note)
    await held.release()
    await (await task).release()
    await (await others.lease("feeds").acquire()).release()
    assert [query for query in queries if query in ("release_one", "hand_over")] == [
        "release_one",
        "hand_over",
        "release_one",
    ]


async def test_a_grant_that_is_released_at_once_is_not_renewed_before(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acquisition, "_BRIEFLY_HELD", 20.0)
    held = await locks.lease("feeds").acquire()
    task = await queued(others, interlock_url)
    renewed = count_calls(monkeypatch, "renew")
    await held.release()
    await (await task).release()
    assert (renewed, holder(interlock_url)) == ([], None)


async def test_a_grant_that_cannot_be_renewed_is_lost_before_another_could_hold_it(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acquisition, "_BRIEFLY_HELD", 3600.0)
    requested = count_calls(monkeypatch, "acquire")
    while True:
        held = await locks.lease("feeds").acquire()
        task = await queued(others, interlock_url)
        requested.clear()
        await held.release()
        grant = await task
        if not requested:
            break
        await grant.release()  # the machine stopped meanwhile, and so a request was sent
    assert await grant.wait_lost() == "expired"
    ends = "SELECT expires_at > clock_timestamp() FROM interlock.lease WHERE name = 'feeds'"
    assert grant.remaining == 0
    await until(lambda: execute(interlock_url, ends) == [(False,)])


async def test_an_old_notification_is_not_trusted(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notification of the grant comes when another process holds the lease."""
    words: list[tuple[UUID | None, HandedGrant | None]] = []
    parse = leases._parsed

    def keep(payload: str) -> tuple[UUID | None, HandedGrant | None]:
        words.append(parse(payload))
        return uuid4(), None

    monkeypatch.setattr(wait_queue, "_POLL_EVERY", 3600.0)
    held = await locks.lease("feeds").acquire()
    task = await queued(others, interlock_url)
    monkeypatch.setattr(leases, "_parsed", keep)
    await held.release()
    await until(lambda: words)
    _, handed = words[0]
    assert handed is not None
    execute(interlock_url, STOLEN)
    over = "SELECT to_timestamp(%s) < clock_timestamp()"
    await until(lambda: execute(interlock_url, over, handed.until) == [(True,)])
    monkeypatch.setattr(leases, "_parsed", parse)
    others.engine()._queue.notify(*words[0])
    await until(lambda: len(queue(interlock_url)) == 1)
    assert not task.done()
    execute(interlock_url, "UPDATE interlock.lease SET expires_at = '-infinity'")
    others.engine()._queue.wake_first("feeds")
    assert (await task).token > handed.token + 1


@pytest.mark.usefixtures("no_polls")
async def test_a_cancellation_that_comes_with_the_releases_answer_still_notifies_the_waiter(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    held = await locks.lease("feeds").acquire()
    task = await queued(locks, interlock_url)
    releasing = asyncio.create_task(held.release())
    await until_answered(releasing)
    releasing.cancel()
    assert (await task).token > held.token


async def test_a_cancellation_that_comes_with_a_locked_answer_still_retries_the_release(
    locks: AsyncInterlock, interlock_url: str
) -> None:
    held = await locks.lease("feeds").acquire()
    with psycopg.connect(interlock_url) as busy:
        busy.execute("SELECT FROM interlock.lease WHERE name = 'feeds' FOR UPDATE")
        releasing = asyncio.create_task(held.release())
        await until_answered(releasing)
        releasing.cancel()
    await until(lambda: holder(interlock_url) is None)


async def test_a_cancellation_that_comes_with_the_hand_overs_answer_ends_the_trust(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    held = await locks.lease("feeds").acquire()
    task = await queued(others, interlock_url)
    handing = asyncio.create_task(held.hand_over())
    await until_answered(handing)
    handing.cancel()
    assert (await task).token > held.token
    assert held.remaining == 0
    with pytest.raises(errors.LeaseLost):
        held.check()


@pytest.mark.usefixtures("no_polls")
@pytest.mark.parametrize("where", ["in the same process", "elsewhere"])
async def test_a_grant_by_release_whose_notification_was_lost_is_found(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, where: str
) -> None:
    """The server ends the session between the commit and the notification."""
    held = await locks.lease("feeds").acquire()
    task = await queued(locks if where == "in the same process" else others, interlock_url)
    rewrite(interlock_url, "hand_on_v1", "COMMIT;", "COMMIT; PERFORM pg_terminate_backend(pg_backend_pid());")
    await held.release()
    assert (await task).token > held.token


@pytest.mark.usefixtures("no_polls")
async def test_each_offer_is_checked_after_its_own_second(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first check comes when the second lease has just been offered. The test sets the clock."""
    offered_again: list[list[str]] = []
    offer = PostgresLeases.offer

    async def note(store: PostgresLeases, names: Sequence[str]) -> list[UUID]:
        offered_again.append(list(names))
        return await offer(store, names)

    monkeypatch.setattr(PostgresLeases, "offer", note)
    await locks.open()
    clock = [1000.0]
    monkeypatch.setattr(deferred, "boottime", lambda: clock[0])
    offer_later = locks.engine()._deferred._offer_later
    offer_later("a")
    clock[0] += 0.75 * deferred._OFFER_AGAIN_AFTER
    offer_later("b")
    clock[0] += 0.3 * deferred._OFFER_AGAIN_AFTER
    await until(lambda: offered_again)
    clock[0] += 0.8 * deferred._OFFER_AGAIN_AFTER
    await until(lambda: len(offered_again) == 2)
    assert offered_again == [["a"], ["b"]]


async def test_a_grant_by_release_during_close_is_released(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notification comes in the step of the loop in which closing begins."""
    closing: list[asyncio.Task[None]] = []
    parse = leases._parsed

    def close_and_notify(payload: str) -> tuple[UUID | None, HandedGrant | None]:
        closing.append(asyncio.ensure_future(others.close()))
        asyncio.get_running_loop().call_soon(others.engine()._queue.notify, *parse(payload))
        return uuid4(), None

    held = await locks.lease("feeds").acquire()
    task = await queued(others, interlock_url)
    monkeypatch.setattr(leases, "_parsed", close_and_notify)
    await held.release()
    with pytest.raises(errors.ConfigurationError, match="was closed"):
        await task
    await closing[0]
    assert holder(interlock_url) is None
