"""Grants and records are answered after the sync to the disk. Other requests do not wait for it."""

import asyncio
import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from interlock import errors
from interlock.coordination.engine.deferred import OrphanedGrant
from interlock.stores.leases import AcquireAnswer, AcquireRequest, Holder
from interlock.stores.sqlite import leases, log
from interlock.stores.sqlite.leases import SqliteLeases


class Disk:
    """Records the synced files by name; `on_sync` is called before each sync.

    `log` is the disk's content of the log. As on Linux, changes before a failed sync never reach the disk: their pages
    count as written from then on, and in a file that grew permanently.
    """

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.descriptors: list[int] = []
        self.on_sync: Callable[[], None] = lambda: None
        self.log = self._seen = b""

    def sync(self, descriptor: int) -> None:
        self.descriptors.append(descriptor)
        wanted = os.pread(descriptor, 1 << 30, 0)
        before, self._seen = self._seen, wanted
        self.on_sync()
        os.fdatasync(descriptor)
        had = self.log.ljust(len(wanted), b"\0")
        pages = (slice(start, start + 4096) for start in range(0, len(wanted), 4096))
        self.log = b"".join(had[page] if wanted[page] == before[page] else wanted[page] for page in pages)
        self.synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))

    def after_a_power_cut(self, file: Path) -> dict[str, int]:
        """The remaining tokens. (Opening the file here costs SQLite its locks; no other process uses it.)"""
        found = file.with_name("found.db")
        found.write_bytes(file.read_bytes())
        file.with_name("found.db-wal").write_bytes(self.log)
        with closing(sqlite3.connect(found)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            return dict(connection.execute("SELECT name, token FROM interlock_lease"))


def fail() -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(log, "_sync", disk.sync)
    return disk


@pytest.fixture
def still(disk: Disk) -> Iterator[tuple[threading.Event, threading.Event]]:
    """A stopped disk: one event says that a thread waits for it, the other lets it go on."""
    waited_for, goes_on = threading.Event(), threading.Event()

    def stand_still() -> None:
        waited_for.set()
        goes_on.wait(30)

    disk.on_sync = stand_still
    yield waited_for, goes_on
    goes_on.set()


def ask(name: str = "feeds", *, wait: bool = True) -> AcquireRequest:
    return AcquireRequest(name, uuid4(), 30.0, None, wait)


def held(ask: AcquireRequest, granted: AcquireAnswer) -> OrphanedGrant:
    return OrphanedGrant(ask.name, granted.token, ask.grant_id, ask.ttl)


async def test_only_a_grant_waits_for_the_disk(file: Path, disk: Disk) -> None:
    store = SqliteLeases(file, Holder("one", "here", 1), 10.0)
    told = asyncio.Event()
    await store.subscribe(lambda *_: told.set(), lambda: None)
    first, second, third = ask(), ask(), ask()

    (granted,) = await store.acquire([first])
    assert (granted.status, disk.synced) == ("granted", [f"{file}-wal"])
    disk.synced.clear()
    (queued,) = await store.acquire([second])
    assert queued.status == "busy"
    assert await store.renew([held(first, granted)], 5.0)
    (released,) = await store.release([held(first, granted)])
    assert released.offered == second.grant_id
    (late,) = await store.acquire([third])  # it is free, but offered to another waiter
    assert (late.status, disk.synced) == ("busy", [])
    (granted,) = await store.acquire([second])
    assert (granted.status, disk.synced) == ("granted", [f"{file}-wal"])
    await store.close()


async def test_a_grant_is_answered_after_the_disk_and_other_requests_do_not_wait(
    file: Path, still: tuple[threading.Event, threading.Event]
) -> None:
    waited_for, goes_on = still
    one, other = (SqliteLeases(file, Holder(name, "here", 1), 10.0) for name in ("one", "other"))
    wanted = ask()
    getting = asyncio.create_task(one.acquire([wanted]))
    assert await asyncio.to_thread(waited_for.wait, 10)

    (busy,) = await other.acquire([ask(wait=True)])  # a place in the queue, through the writer lock
    assert (busy.status, busy.holder) == ("busy", "one")
    assert not getting.done()
    goes_on.set()
    (granted,) = await getting
    assert granted.status == "granted"
    await one.close()
    await other.close()


@pytest.mark.parametrize("wait", [True, False])
async def test_a_repeated_request_after_a_failed_sync_is_answered_from_the_disk(
    file: Path, disk: Disk, wait: bool
) -> None:
    store = SqliteLeases(file, Holder("one", "here", 1), 10.0)
    wanted = ask(wait=wait)
    disk.on_sync = fail
    with pytest.raises(errors.ConnectionLost, match="could not be synced to its disk"):
        await store.acquire([wanted])
    disk.on_sync = lambda: None
    (granted,) = await store.acquire([wanted])
    assert (granted.status, set(disk.synced)) == ("granted", {f"{file}-wal"})
    await store.close()


async def test_after_a_failed_sync_no_answer_relies_on_missing_data(file: Path, disk: Disk) -> None:
    """The disk goes on as if nothing had happened, but for the hole in the log."""
    one, other = (SqliteLeases(file, Holder(name, "here", 1), 10.0) for name in ("one", "other"))
    await other.verify()  # so that no other connection is the last one, which empties the log
    first, second, third = ask("first"), ask("second"), ask("third")
    (granted,) = await one.acquire([first])
    assert disk.after_a_power_cut(file) == {"first": granted.token}

    disk.on_sync = fail
    size = file.stat().st_size
    for _ in range(3):
        with pytest.raises(errors.ConnectionLost):
            await one.acquire([second])
    assert (await one.renew([held(first, granted)], 10.0)).lost == []
    assert file.stat().st_size == size  # a disk that fails is not given the database to write
    disk.on_sync = lambda: None
    told = {"first": granted.token}
    for store, wanted in ((one, second), (other, third)):
        (granted,) = await store.acquire([wanted])
        assert granted.status == "granted"
        told[wanted.name] = granted.token
        assert told.items() <= disk.after_a_power_cut(file).items()
    await one.close()
    await other.close()


async def test_after_a_failed_sync_a_record_is_read_from_the_disk(file: Path, disk: Disk) -> None:
    store, other = (SqliteLeases(file, Holder(name, "here", 1), 10.0) for name in ("one", "other"))
    await other.verify()
    wanted = ask()
    (granted,) = await store.acquire([wanted])
    assert await store.read("done") is None  # its connection is older than the failure
    disk.on_sync = fail
    with pytest.raises(errors.ConnectionLost):
        await store.write("done", "1", held(wanted, granted))
    disk.on_sync = lambda: None
    record = await store.read("done")
    assert record is not None
    assert file.with_name("app.db-wal").stat().st_size == 0  # it is in the database
    with pytest.raises(errors.PermissionMissing):  # the thread that reads still does nothing else
        await store._read(lambda connection: connection.execute("DELETE FROM interlock_record"))
    await store.close()
    await other.close()


async def test_after_a_failed_sync_a_users_long_read_is_waited_for(
    file: Path, disk: Disk, mine: sqlite3.Connection
) -> None:
    """Its transaction keeps the log from being restarted. Requests that need no disk go on."""
    store = SqliteLeases(file, Holder("one", "here", 1), 10.0)
    first = ask("first")
    (granted,) = await store.acquire([first])
    mine.execute("BEGIN")
    assert mine.execute("SELECT token FROM interlock_lease").fetchall() == [(granted.token,)]
    wanted = ask()
    disk.on_sync = fail
    with pytest.raises(errors.ConnectionLost):
        await store.acquire([wanted])
    disk.on_sync = lambda: None
    with pytest.raises(errors.ConnectionLost, match="a transaction that reads the file"):
        await store.acquire([wanted])
    assert (await store.renew([held(first, granted)], 10.0)).lost == []
    mine.execute("COMMIT")
    (granted,) = await store.acquire([wanted])
    assert granted.status == "granted"
    await store.close()


async def test_the_descriptor_that_is_synced_was_open_before_the_commit(file: Path, disk: Disk) -> None:
    """One that is opened after a write has failed is perhaps never told of it."""
    store = SqliteLeases(file, Holder("one", "here", 1), 10.0)
    await store.verify()
    links = {int(link.name): link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()}
    await store.acquire([ask()])
    assert [links.get(descriptor) for descriptor in disk.descriptors] == [Path(f"{file}-wal")]
    await store.close()


async def test_a_new_process_after_a_failed_sync_is_answered_from_the_disk(file: Path, disk: Disk) -> None:
    """The process that saw the failure has ended, and cannot empty the log."""
    one, other = (SqliteLeases(file, Holder(name, "here", 1), 10.0) for name in ("one", "other"))
    await one.acquire([ask("first")])
    disk.on_sync = fail
    with pytest.raises(errors.ConnectionLost):
        await one.acquire([ask("second")])
    disk.on_sync = lambda: None
    (granted,) = await other.acquire([ask("third")])
    assert disk.after_a_power_cut(file)["third"] == granted.token
    disk.synced.clear()
    await other.acquire([ask("fourth")])
    assert len(disk.synced) == 1  # that is over
    await one.close()
    await other.close()


@pytest.mark.parametrize("has_failed", [False, True])
async def test_a_log_that_was_removed_is_not_relied_on(file: Path, disk: Disk, has_failed: bool) -> None:
    store = SqliteLeases(file, Holder("one", "here", 1), 10.0)
    await store.acquire([ask("first")])
    if has_failed:
        disk.on_sync = fail
        with pytest.raises(errors.ConnectionLost):
            await store.acquire([ask("second")])
        disk.on_sync = lambda: None
    log = file.with_name("app.db-wal")
    log.unlink()
    log.touch()
    with pytest.raises(errors.ConnectionLost, match="was removed"):
        await store.acquire([ask()])
    (granted,) = await store.acquire([ask("third")])  # in what stands there now
    assert granted.status == "granted"
    await store.close()


async def test_answers_that_need_no_disk_do_not_wait_for_it(
    file: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grant and a renewal in one transaction."""
    monkeypatch.setattr(leases, "_ACQUIRE_LOCK_TIMEOUT", 30.0)
    waited_for, goes_on = threading.Semaphore(0), threading.Semaphore(0)

    def stand_still() -> None:
        waited_for.release()
        goes_on.acquire(timeout=30)

    def stand_still_and_fail() -> None:
        stand_still()
        fail()

    store = SqliteLeases(file, Holder("one", "here", 1), 30.0)
    wanted = ask()
    (granted,) = await store.acquire([wanted])
    disk.on_sync = stand_still
    before = asyncio.create_task(store.acquire([ask("before")]))
    assert await asyncio.to_thread(waited_for.acquire, timeout=30)
    getting = asyncio.create_task(store.acquire([ask("other")]))
    renewing = asyncio.create_task(store.renew([held(wanted, granted)], 30.0))
    while len(store._writer._worker._jobs) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    disk.on_sync = stand_still_and_fail
    goes_on.release()
    assert [answer.status for answer in await before] == ["granted"]

    assert (await renewing).lost == []
    assert await asyncio.to_thread(waited_for.acquire, timeout=30)
    assert not getting.done()
    goes_on.release()
    with pytest.raises(errors.ConnectionLost):
        await getting
    disk.on_sync = lambda: None
    await store.close()


async def test_a_record_is_on_the_disk_before_anybody_writes_or_reads_it(file: Path, disk: Disk) -> None:
    writing, reading = (SqliteLeases(file, Holder(name, "here", 1), 10.0) for name in ("writing", "reading"))
    wanted = ask()
    (granted,) = await writing.acquire([wanted])
    disk.synced.clear()
    assert await reading.read("done") is None
    assert disk.synced == []
    assert await writing.write("done", "1", held(wanted, granted)) is True
    assert disk.synced == [f"{file}-wal"]
    record = await reading.read("done")
    assert record is not None
    assert record.value == "1"
    assert disk.synced == [f"{file}-wal"] * 2
    assert await reading.read("done") == record
    assert len(disk.synced) == 2  # it is known to be there
    assert await writing.write("done", "2", held(wanted, granted)) is True
    assert await reading.read("done") != record
    assert disk.synced == [f"{file}-wal"] * 4
    await writing.close()
    await reading.close()


async def test_of_a_file_behind_a_link_the_right_log_is_synced(tmp_path: Path, disk: Disk) -> None:
    (tmp_path / "real").mkdir()
    sqlite3.connect(tmp_path / "real" / "shop.db").close()
    (tmp_path / "link.db").symlink_to(tmp_path / "real" / "shop.db")
    store = SqliteLeases(tmp_path / "link.db", Holder("one", "here", 1), 10.0)
    (granted,) = await store.acquire([ask()])
    assert (granted.status, disk.synced) == ("granted", [f"{tmp_path}/real/shop.db-wal"])
    await store.close()
