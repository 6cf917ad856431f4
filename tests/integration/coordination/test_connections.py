"""The connections of one process: at most four, each opened when it is needed, none while the process is idle."""

import asyncio
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

import pytest

from interlock import AsyncInterlock, errors
from interlock.coordination.events import Reconnected
from interlock.stores.postgres.leases import PostgresLeases
from support.lease_engine import count_calls, end_session, holder, queue, sessions, until


def purposes(url: str) -> list[str]:
    return sorted(sessions(url).values())


@pytest.fixture
async def quick_to_close(interlock_url: str) -> AsyncIterator[AsyncInterlock]:
    """A root object that closes connections which were not used for a moment."""
    locks = AsyncInterlock(interlock_url, idle_after=1.0)
    yield locks
    await locks.close()


async def test_four_connections_are_opened_each_when_it_is_needed(locks: AsyncInterlock, interlock_url: str) -> None:
    assert purposes(interlock_url) == []
    grant = await locks.lease("feeds", ttl=30, renew_every=0.1).acquire()
    assert purposes(interlock_url) == ["acquire"]
    await until(lambda: purposes(interlock_url) == ["acquire", "heartbeat"])
    waiter = asyncio.ensure_future(locks.lease("feeds").acquire())
    await until(lambda: purposes(interlock_url) == ["acquire", "heartbeat", "listen"])
    await until(lambda: queue(interlock_url))
    await grant.release()
    last = await waiter
    assert purposes(interlock_url) == ["acquire", "heartbeat", "listen"]
    await asyncio.gather(locks.lease("other").acquire(), last.release())
    assert purposes(interlock_url) == ["acquire", "heartbeat", "listen", "release"]
    await asyncio.gather(*(locks.lease(f"feed {number}").try_acquire() for number in range(200)))
    assert len(sessions(interlock_url)) == 4


async def test_an_idle_process_has_no_connection(
    quick_to_close: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    locks = quick_to_close
    async with locks.lease("feeds", ttl=30, renew_every=0.1):
        await until(lambda: "heartbeat" in purposes(interlock_url))
    async with others.lease("feeds"):
        waiter = asyncio.ensure_future(locks.lease("feeds").acquire())
        await until(lambda: queue(interlock_url))
        assert "listen" in purposes(interlock_url)
        waiter.cancel()
    await others.close()
    await until(lambda: purposes(interlock_url) == [])
    async with locks.lease("feeds") as grant:
        assert holder(interlock_url) == grant.grant_id
    await until(lambda: purposes(interlock_url) == [])


async def test_a_held_lease_keeps_its_heartbeat_and_a_release_leaves_no_connection(
    quick_to_close: AsyncInterlock, interlock_url: str
) -> None:
    """Also if renewals are so far apart that their connection is idle in between."""
    grant = await quick_to_close.lease("feeds", ttl=30, renew_every=3).acquire()
    await until(lambda: purposes(interlock_url) == [])
    await until(lambda: purposes(interlock_url) == ["heartbeat"])
    grant.check()
    await grant.release()
    await until(lambda: purposes(interlock_url) == [])


@pytest.mark.exhaustive
async def test_a_pending_offer_does_not_keep_connections_open(
    quick_to_close: AsyncInterlock,
    others: AsyncInterlock,
    interlock_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second after a release to another process, the releasing process checks that the waiter has come."""
    offers = count_calls(monkeypatch, "offer")
    grant = await quick_to_close.lease("feeds").acquire()
    waiter = asyncio.ensure_future(others.lease("feeds").acquire())
    await until(lambda: queue(interlock_url))
    await grant.release()
    await waiter
    await others.close()
    await until(lambda: purposes(interlock_url) == [])
    await until(lambda: offers)
    await until(lambda: purposes(interlock_url) == [])


async def test_a_waiter_keeps_its_subscription(
    quick_to_close: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    grant = await others.lease("feeds").acquire()
    waiter = asyncio.ensure_future(quick_to_close.lease("feeds").acquire())
    await until(lambda: queue(interlock_url))
    await until(lambda: purposes(interlock_url) == ["acquire", "heartbeat", "listen"])
    await grant.release()
    await waiter


async def test_a_slow_statement_is_not_idle(quick_to_close: AsyncInterlock, interlock_url: str) -> None:
    await (await quick_to_close.lease("feeds").acquire()).release()
    slow = "CREATE FUNCTION pg_temp.slow() RETURNS void LANGUAGE sql AS 'SELECT pg_sleep(1)'"
    store = quick_to_close._stores[asyncio.get_running_loop()]
    assert isinstance(store, PostgresLeases)
    session = await store.session()
    await session.execute(slow)
    await session.execute("SELECT pg_temp.slow()")


@pytest.mark.parametrize("purpose", ["acquire", "release", "heartbeat", "listen"])
async def test_a_lost_connection_is_opened_again_and_reported(interlock_url: str, purpose: str) -> None:
    told: list[object] = []
    locks = AsyncInterlock(interlock_url, replica="one", on_event=told.append)
    held = await locks.lease("feeds", ttl=30, renew_every=0.1).acquire()
    waiter = asyncio.ensure_future(locks.lease("feeds").acquire())
    await until(lambda: queue(interlock_url))
    other = await locks.lease("other").acquire()
    another, _ = await asyncio.gather(locks.lease("another").acquire(), other.release())
    await until(lambda: len(sessions(interlock_url)) == 4)
    await asyncio.to_thread(end_session, interlock_url, purpose)
    await asyncio.gather(locks.lease("other").acquire(), another.release())
    await until(lambda: locks.metrics.snapshot().reconnects)
    assert [event for event in told if isinstance(event, Reconnected)] == [Reconnected("one", purpose)]
    assert locks.metrics.snapshot().reconnects == {purpose: 1}
    await held.release()
    await waiter
    await locks.close()


async def test_a_listening_connection_that_failed_at_its_start_is_dropped(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection on which one statement got no answer may never answer again."""
    tries = 0
    opened = PostgresLeases._start_listening

    async def start_listening(*args: object) -> int:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise errors.DatabaseUnreachable("It did not answer in time.")
        return await opened(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(PostgresLeases, "_start_listening", start_listening)
    grant = await others.lease("feeds").acquire()
    waiter = asyncio.ensure_future(locks.lease("feeds").acquire())
    await until(lambda: tries == 2 and "listen" in purposes(interlock_url))
    assert locks.metrics.snapshot().reconnects == {"listen": 1}
    await grant.release()
    await waiter


async def test_the_listening_connection_sends_keep_alive_probes(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str
) -> None:
    """A router would drop a silent connection, and neither side would notice."""
    await others.lease("feeds").acquire()
    waiter = asyncio.ensure_future(locks.lease("feeds").acquire())
    await until(lambda: queue(interlock_url))
    store = locks._stores[asyncio.get_running_loop()]
    assert isinstance(store, PostgresLeases)
    session = await store._listen_connection.session()
    assert await session.fetchval("SHOW tcp_keepalives_idle") == "3"
    assert session.descriptor is not None
    with socket.socket(fileno=session.descriptor) as line:
        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        line.detach()
    waiter.cancel()


async def test_the_password_function_is_called_for_each_connection(interlock_url: str) -> None:
    asked = 0
    parts = urlsplit(interlock_url)

    def password() -> str:
        nonlocal asked
        asked += 1
        return parts.password or ""

    bare = urlunsplit(parts._replace(netloc=f"{parts.username}@{parts.hostname}:{parts.port}"))
    locks = AsyncInterlock(bare, password=password)
    async with locks.lease("feeds", ttl=30, renew_every=0.1):
        await until(lambda: "heartbeat" in purposes(interlock_url))
    assert asked == len(sessions(interlock_url)) == 2
    await locks.close()


async def test_a_statement_interrupted_while_it_is_sent_does_not_disturb_the_next(
    locks: AsyncInterlock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with locks.lease("feeds"):
        pass

    def stop(*_: object) -> None:
        raise RecursionError

    with monkeypatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "call_later", stop)
        with pytest.raises(RecursionError):
            await locks.lease("feeds").try_acquire()
    async with locks.lease("feeds"):
        pass
