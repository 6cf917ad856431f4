"""What is on the disk before anybody is answered: that a token was given out, and records. Nobody else waits for it."""

import asyncio
import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from interlock import errors
from interlock.coordination.errands import Unwanted
from interlock.stores.leases import AcquireAnswer, Ask, Holder
from interlock.stores.sqlite import file as lease_file
from interlock.stores.sqlite.leases import SqliteLeases


class Disk:
    """What was synced, by the file's name; `on_sync` is called before."""

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.on_sync: Callable[[], None] = lambda: None

    def sync(self, descriptor: int) -> None:
        self.on_sync()
        os.fdatasync(descriptor)
        self.synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(lease_file, "_sync", disk.sync)
    return disk


@pytest.fixture
def still(disk: Disk) -> Iterator[tuple[threading.Event, threading.Event]]:
    """A disk that stands still: somebody waits for it, and it goes on."""
    waited_for, goes_on = threading.Event(), threading.Event()

    def stand_still() -> None:
        waited_for.set()
        goes_on.wait(30)

    disk.on_sync = stand_still
    yield waited_for, goes_on
    goes_on.set()


def ask(name: str = "feeds", *, wait: bool = True) -> Ask:
    return Ask(name, uuid4(), 30.0, None, wait)


def held(ask: Ask, granted: AcquireAnswer) -> Unwanted:
    return Unwanted(ask.name, granted.token, ask.grant_id, ask.ttl)


async def test_only_a_grant_waits_for_the_disk(file: Path, disk: Disk) -> None:
    store = SqliteLeases(file, Holder("one", "here", 1), 10.0)
    told = asyncio.Event()
    await store.listen(lambda *_: told.set(), lambda: None)
    first, second, third = ask(), ask(), ask()

    (granted,) = await store.acquire([first])
    assert (granted.status, disk.synced) == ("granted", [f"{file}-wal"])
    disk.synced.clear()
    (queued,) = await store.acquire([second])
    assert queued.status == "busy"
    assert await store.renew([held(first, granted)], 5.0)
    (released,) = await store.release([held(first, granted)])
    assert released.offered == second.grant_id
    (late,) = await store.acquire([third])  # it is free, and somebody else's turn
    assert (late.status, disk.synced) == ("busy", [])
    (granted,) = await store.acquire([second])
    assert (granted.status, disk.synced) == ("granted", [f"{file}-wal"])
    await store.close()


async def test_nobody_is_told_before_it_is_on_the_disk_and_nobody_else_waits_for_that(
    file: Path, still: tuple[threading.Event, threading.Event]
) -> None:
    waited_for, goes_on = still
    one, other = (SqliteLeases(file, Holder(name, "here", 1), 10.0) for name in ("one", "other"))
    wanted = ask()
    getting = asyncio.create_task(one.acquire([wanted]))
    assert await asyncio.to_thread(waited_for.wait, 10)

    (busy,) = await other.acquire([ask(wait=True)])  # a place in the queue, through the turnstile
    assert (busy.status, busy.holder) == ("busy", "one")
    assert not getting.done()
    goes_on.set()
    (granted,) = await getting
    assert granted.status == "granted"
    await one.close()
    await other.close()


@pytest.mark.parametrize("wait", [True, False])
async def test_who_asks_again_after_a_failed_wait_is_told_only_what_is_on_the_disk(
    file: Path, disk: Disk, wait: bool
) -> None:
    def fail() -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    store = SqliteLeases(file, Holder("one", "here", 1), 10.0)
    wanted = ask(wait=wait)
    disk.on_sync = fail
    with pytest.raises(errors.ConnectionLost, match="could not be put on its disk"):
        await store.acquire([wanted])
    disk.on_sync = lambda: None
    (granted,) = await store.acquire([wanted])
    assert (granted.status, disk.synced) == ("granted", [f"{file}-wal"])
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
