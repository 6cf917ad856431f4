"""Processes of one machine tell each other that a lease was handed on; whoever they cannot tell, the server does."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from interlock import AsyncInterlock
from interlock.coordination import engine, waiting
from interlock.coordination.grant import AsyncGrant
from interlock.stores.postgres import bell
from interlock.stores.postgres.bell import Bell
from interlock.stores.postgres.leases import PostgresLeases
from support.holding import count_calls, end_session, queue, queued, statements, until
from support.postgres import execute
from support.protocol import note_commits

pytestmark = pytest.mark.usefixtures("slow_machine", "no_renewals")
WAYS = ("release_one", "hand_on", "hand_on_near", "tell")


@pytest.fixture
def no_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is just being renewed is locked, and then handed on another way."""
    monkeypatch.setattr(engine, "_BRIEFLY_HELD", 3600.0)


def store(locks: AsyncInterlock) -> PostgresLeases:
    found = locks.engine()._store
    assert isinstance(found, PostgresLeases)
    return found


def bell_of(locks: AsyncInterlock) -> Bell:
    found = store(locks)._bell
    assert found is not None
    return found


async def pass_round(url: str, held: AsyncGrant, *next_ones: AsyncInterlock) -> AsyncGrant:
    """Each of them waits for it and is given it by the one before; the last one's grant."""
    for locks in next_ones:
        task = await queued(locks, url, ttl=3600)
        await held.release()
        taken = await task
        assert taken.token > held.token
        held = taken
    return held


async def acquainted(locks: AsyncInterlock, others: AsyncInterlock, url: str) -> AsyncGrant:
    """Each has handed on to the other, and so knows where it is. `locks` holds it."""
    held = await pass_round(url, await locks.lease("feeds", ttl=3600).acquire(), others, locks, others, locks)
    assert store(locks)._near
    assert store(others)._near
    return held


@contextmanager
def notifications(url: str, *numbers: int) -> Iterator[list[str]]:
    """What the server says to those listeners within the block."""
    heard: list[str] = []
    with psycopg.connect(url, autocommit=True) as connection:
        for number in numbers:
            connection.execute(f'LISTEN "interlock_{number}"')
        yield heard
        execute(url, "SELECT pg_notify(%s, 'the end')", f"interlock_{numbers[0]}")
        for notice in connection.notifies():
            if notice.payload == "the end":
                break
            heard.append(notice.payload)


@pytest.mark.usefixtures("no_looks")
async def test_processes_of_one_machine_tell_each_other_past_the_server(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = await acquainted(locks, others, interlock_url)
    sent = statements(monkeypatch)
    with notifications(interlock_url, bell_of(locks).number, bell_of(others).number) as heard:
        await pass_round(interlock_url, held, others, locks, others)
    assert [query for query in sent if query in WAYS] == ["hand_on_near"] * 3
    assert heard == []


async def test_whoever_was_told_so_has_it_without_asking(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = count_calls(monkeypatch, "acquire")  # before the root objects are used: they take hold of it then
    held = await acquainted(locks, others, interlock_url)
    task = await queued(others, interlock_url)
    asked.clear()
    await held.release()
    grant = await task
    assert asked == []
    grant.check()


@pytest.mark.usefixtures("no_looks")
async def test_the_first_of_another_machine_is_told_by_the_server_and_the_next_at_once(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = await acquainted(locks, others, interlock_url)
    monkeypatch.setattr(Bell, "is_near", lambda *_: False)
    sent = statements(monkeypatch)
    await pass_round(interlock_url, held, others, locks, others, locks)
    ways = [query for query in sent if query in WAYS]
    assert ways == ["hand_on_near", "tell", "hand_on_near", "tell", "hand_on", "hand_on"]


@pytest.mark.usefixtures("no_looks")
async def test_who_cannot_be_rung_is_told_by_the_server(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no room in its socket, say, because its process was stopped."""
    held = await acquainted(locks, others, interlock_url)
    task = await queued(others, interlock_url)
    bell_of(others).close()
    sent = statements(monkeypatch)
    with notifications(interlock_url, bell_of(others).number) as heard:
        await held.release()
        assert (await task).token > held.token
    assert [query for query in sent if query in WAYS] == ["hand_on_near", "tell"]
    assert len(heard) == 1


async def test_what_was_handed_on_by_one_that_died_before_it_rang_is_found_by_a_look(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = await acquainted(locks, others, interlock_url)
    monkeypatch.setattr(waiting, "_LOOK_AGAIN", 0.1)
    task = await queued(others, interlock_url)
    monkeypatch.setattr(Bell, "ring", lambda *_: True)
    await held.release()
    assert (await task).token > held.token


@pytest.mark.usefixtures("no_looks")
@pytest.mark.parametrize("error", [PermissionError, NotImplementedError], ids=["sockets", "event loops that read them"])
async def test_where_there_are_none_the_server_tells(
    locks: AsyncInterlock,
    others: AsyncInterlock,
    interlock_url: str,
    monkeypatch: pytest.MonkeyPatch,
    error: type[Exception],
) -> None:
    def refuse(*args: object) -> None:
        raise error

    monkeypatch.setattr(bell.Bell, "_bind", refuse)
    sent = statements(monkeypatch)
    first = await locks.lease("feeds", ttl=3600).acquire()
    await pass_round(interlock_url, first, others, locks, others, locks)
    assert [query for query in sent if query in WAYS] == ["release_one", "hand_on", "hand_on", "hand_on"]
    assert (store(locks)._listener or -1) >= 0


@pytest.mark.usefixtures("no_looks")
async def test_what_strangers_say_is_passed_over(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is on the machine can ring."""
    held = await acquainted(locks, others, interlock_url)
    task = await queued(others, interlock_url)
    (waiter,) = queue(interlock_url)
    asked = count_calls(monkeypatch, "acquire")
    number = bell_of(others).number
    nonsense = [
        b"", b" ", b"\xff\0", b"x" * 2000, str(waiter).encode(), f"{waiter} 1".encode(), f"{waiter} a b".encode(),
        b"00000000-0000-0000-0000-000000000000 1 2", b"1 2 3",
    ]  # fmt: skip
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        for each in nonsense:
            stranger.sendto(each, bell._address(number))
    await held.release()
    assert (await task).token > held.token
    assert asked == []


@pytest.mark.parametrize(("setting", "of_a_grant"), [("on", "on"), ("off", "on"), ("local", "local")])
async def test_it_is_on_the_disk_before_and_a_release_to_nobody_does_not_wait_for_that(
    locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str, setting: str, of_a_grant: str
) -> None:
    [[database]] = execute(interlock_url, "SELECT current_database()")
    execute(interlock_url, f'ALTER DATABASE "{database}" SET synchronous_commit = {setting}')
    note_commits(interlock_url)
    held = await acquainted(locks, others, interlock_url)
    execute(interlock_url, "DELETE FROM setting")
    held = await pass_round(interlock_url, held, others)
    assert set(execute(interlock_url, "DELETE FROM setting RETURNING at")) == {(of_a_grant,)}
    assert store(others)._near
    await held.release()
    assert execute(interlock_url, "SELECT at FROM setting")[-1] == ("off",)


async def test_a_bell_ends_with_what_listens(locks: AsyncInterlock, others: AsyncInterlock, interlock_url: str) -> None:
    held = await acquainted(locks, others, interlock_url)
    before = bell_of(others)
    task = await queued(others, interlock_url)
    ears = store(others)
    end_session(interlock_url, "listen")
    await until(lambda: ears._bell not in (None, before))
    assert not bell_of(others).ring(before.number, "anybody?")
    await held.release()
    await (await task).release()
    last = bell_of(others)
    async with AsyncInterlock(interlock_url) as third:
        await third.lease("feeds").acquire()
        waiter = await queued(third, interlock_url)
        await others.close()
        assert not bell_of(third).ring(last.number, "anybody?")
        waiter.cancel()
