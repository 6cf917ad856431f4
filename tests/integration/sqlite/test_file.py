"""The file and the directory beside it: created, moved, removed, and read after a restart of the machine."""

import asyncio
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from interlock import AsyncInterlock, Interlock, errors
from interlock.coordination.events import Event, Waiting
from interlock.stores.leases import AcquireRequest, Holder
from interlock.stores.sqlite import boot, decisions, leases, queue
from interlock.stores.sqlite.file import LeaseFile
from interlock.stores.sqlite.leases import SqliteLeases


def test_the_first_process_creates_the_tables(url: str, mine: sqlite3.Connection) -> None:
    """All at once, in a file that is the user's, with another journal."""
    mine.execute("PRAGMA journal_mode = DELETE")
    mine.execute("CREATE TABLE orders (id INTEGER)")
    mine.execute("PRAGMA user_version = 7")

    def use(name: str) -> int:
        with Interlock(url) as locks, locks.lease(name) as grant:
            return grant.token

    with ThreadPoolExecutor(8) as threads:
        tokens = list(threads.map(use, ["same", "same", "a", "b", "c", "d", "e", "f"]))
    assert len(set(tokens)) == 8
    assert mine.execute("SELECT count(*) FROM interlock_file").fetchone() == (1,)
    assert mine.execute("PRAGMA user_version").fetchone() == (7,)
    assert mine.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_a_relative_path_is_taken_from_where_the_root_object_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    locks = AsyncInterlock("sqlite:///my%20leases.db")
    monkeypatch.chdir("/")
    async with locks, locks.lease("feeds"):
        assert (tmp_path / "my leases.db").exists()


async def test_a_long_path_is_listened_at_all_the_same(tmp_path: Path) -> None:
    directory = tmp_path / ("x" * 120)
    directory.mkdir()
    await woken_by_a_release(f"sqlite:///{directory}/leases.db")


async def woken_by_a_release(url: str, waiters: str | None = None) -> None:
    waits = asyncio.Event()

    def on_event(event: Event) -> None:
        if isinstance(event, Waiting):
            waits.set()

    async with AsyncInterlock(url) as locks, AsyncInterlock(waiters or url, on_event=on_event) as others:
        grant = await locks.lease("feeds").acquire()
        waiter = asyncio.create_task(others.lease("feeds").acquire(timeout=3600)._acquisition)
        await waits.wait()
        assert others.engine()._queue.is_subscribed
        await grant.release()
        await (await waiter).release()


@pytest.mark.usefixtures("_no_looking")
async def test_a_process_that_uses_a_link_waits_in_the_same_queue(url: str, file: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(file)
    await woken_by_a_release(url, f"sqlite:///{link}")
    assert list(link.parent.iterdir()) == [link]


@pytest.mark.usefixtures("_no_looking")
async def test_a_waiter_whose_socket_was_removed_listens_at_another(url: str, file: Path) -> None:
    beside = file.with_name("app.db-interlock")
    async with AsyncInterlock(url) as locks, AsyncInterlock(url) as others:
        grant = await locks.lease("feeds").acquire()
        waiter = asyncio.create_task(others.lease("feeds").acquire()._acquisition)
        while not (sockets := [path for path in beside.iterdir() if path.is_socket()]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for path in sockets:
            path.unlink()
        second = asyncio.create_task(others.lease("other").acquire()._acquisition)  # asks, and notices
        await (await second).release()
        third = asyncio.create_task(others.lease("feeds").acquire()._acquisition)
        while not [path for path in beside.iterdir() if path.is_socket()]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await grant.release()
        await (await waiter).release()
        await (await third).release()


@pytest.fixture
def _no_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.coordination.engine.queue._POLL_EVERY", 3600.0)


async def test_a_lease_of_an_earlier_boot_is_free(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    locks = AsyncInterlock(url)
    before = await locks.lease("feeds", ttl=3600).acquire()
    for module in (decisions, queue, leases):
        monkeypatch.setattr(module, "boot_id", lambda: "another start")
    async with AsyncInterlock(url) as anew:
        after = await anew.lease("feeds").try_acquire()
        assert after is not None
        assert after.token > before.token
        await after.release()
    monkeypatch.undo()
    assert await before.release() is False
    await locks.close()


def test_the_boot_is_the_same_for_all() -> None:
    assert boot.boot_id() == boot.boot_id.__wrapped__()
    assert len(boot.boot_id()) == 36


async def test_a_name_that_comes_back_goes_on_above_its_last_token(
    locks: AsyncInterlock, mine: sqlite3.Connection
) -> None:
    """Also where the wall clock was set back, and does not help."""
    await (await locks.lease("feeds").acquire()).release()
    ahead = 2**52
    mine.execute("UPDATE interlock_lease SET token = ?", (ahead,))
    store = locks._stores[asyncio.get_running_loop()]
    assert await store.sweep(-1.0) == 1
    assert mine.execute("SELECT count(*) FROM interlock_lease").fetchone() == (0,)
    grant = await locks.lease("feeds").acquire()
    assert grant.token == ahead + 1
    again = await locks.lease("other").acquire()
    assert again.token == ahead + 1
    await grant.release()


@pytest.mark.exhaustive
async def test_another_file_in_its_place_ends_the_trust(url: str, file: Path, tmp_path: Path) -> None:
    async with AsyncInterlock(url) as locks:
        grant = await locks.lease("feeds", ttl=8).acquire()
        with sqlite3.connect(file) as copied, sqlite3.connect(tmp_path / "copy.db") as copy:
            copied.backup(copy)
            copy.execute("UPDATE interlock_lease SET token = token + 1, grant_id = NULL, expires_at = 0")
        copied.close()
        copy.close()
        for journal in ("app.db-wal", "app.db-shm"):  # they belong to the old one
            file.with_name(journal).unlink()
        shutil.move(tmp_path / "copy.db", file)
        assert await grant.wait_lost() in ("refused", "failover")
        anew = await locks.lease("feeds").acquire()
        assert anew.token > grant.token
        await anew.release()


def put_another_in_its_place(file: Path) -> None:
    other = file.with_name("other.db")
    other.touch()
    for journal in ("app.db-wal", "app.db-shm"):  # they belong to the old one
        file.with_name(journal).unlink(missing_ok=True)
    other.replace(file)


def ask(name: str) -> AcquireRequest:
    return AcquireRequest(name, uuid4(), 60.0, None, wait=True)


@pytest.mark.parametrize("opened_by", ["a look", "a wish"])
@pytest.mark.parametrize("place", [(sqlite3, "connect"), (LeaseFile, "connect")], ids=["opened", "made ready"])
async def test_another_file_in_its_place_while_it_is_opened_is_the_one_that_is_used(
    file: Path, place: tuple[Any, str], opened_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, or after it was noticed."""
    sqlite3.connect(file).close()
    connect = getattr(*place)

    def connect_and_replace(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        connection = connect(*args, **options)
        put_another_in_its_place(file)
        return connection

    monkeypatch.setattr(*place, connect_and_replace)
    store = SqliteLeases(file, Holder("one", "here", 1), 10.0)
    with suppress(errors.ConnectionLost):
        await (store.held("") if opened_by == "a look" else store.acquire([ask("first")]))
    (answer,) = await store.acquire([ask("second")])
    assert answer.status == "granted"
    assert "second" in [lease.name for lease in await store.held("")]
    with closing(sqlite3.connect(file)) as found:
        assert ("second",) in found.execute("SELECT name FROM interlock_lease").fetchall()
    await store.close()


async def test_dead_sockets_are_cleared_away(locks: AsyncInterlock, file: Path) -> None:
    import socket

    await locks.open()
    beside = file.with_name("app.db-interlock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
        dead.bind(str(beside / "dead"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as alive:
        alive.bind(str(beside / "alive"))
        await locks._stores[asyncio.get_running_loop()].sweep(3600)
        assert [path.name for path in beside.iterdir() if path.is_socket()] == ["alive"]


def test_the_last_connection_to_close_leaves_no_log(file: Path, url: str) -> None:
    for _ in range(30):  # threads that close it at once mostly get away with it
        with Interlock(url) as locks, locks.lease("feeds"):
            pass
        assert not file.with_name(f"{file.name}-wal").exists()
