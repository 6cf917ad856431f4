"""Forked children: they hold nothing of their parent's, and what they make is their own."""

import os
import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from interlock import Interlock, errors
from interlock.stores.sqlite.file import LeaseFile
from interlock.stores.sqlite.forks import InsideSqlite
from interlock.stores.sqlite.log import LogConnection
from support.forks import started, succeeds

_CHILD = """
import os, sys, threading
from interlock import Interlock

url = sys.argv[1]
locks = Interlock(url)
locks.open()
grant = locks.lease("feeds").acquire()
stop = threading.Event()

def work():
    while not stop.is_set():
        with locks.lease("busy"):
            pass

busy = threading.Thread(target=work)
busy.start()
children = []

def fork(part):
    for number in range(10):
        child = os.fork()
        if child == 0:
            try:
                assert grant.lost
                assert locks.lease("feeds").try_acquire() is None
                with locks.lease(f"child {part} {number}") as mine:
                    mine.check()
                os._exit(0)
            except BaseException as error:
                print(repr(error), file=sys.stderr)
                os._exit(1)
        children.append(child)

parts = [threading.Thread(target=fork, args=(part,)) for part in "ab"]
for part in parts:
    part.start()
for part in parts:
    part.join()
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
stop.set()
busy.join()
grant.check()
assert grant.release()
locks.close()
"""

_ORPHAN = """
import os, signal, sys
from interlock import Interlock

def tell(event):
    if event.kind != "waiting":
        return
    if os.fork() == 0:   # a child that lives on, and has nothing to do with any of it
        os.write(1, b"waiting\\n")
        os.close(0); os.close(1); os.close(2)
        signal.pause()

locks = Interlock(sys.argv[1], on_event=tell)
locks.lease("feeds").acquire()
"""

_STILL = """
import os, sys, threading
from interlock import Interlock
from interlock.stores.sqlite import log

waited_for, goes_on, sync = threading.Event(), threading.Event(), log._sync

def stand_still(descriptor):
    waited_for.set()
    goes_on.wait()
    sync(descriptor)

log._sync = stand_still
with Interlock(sys.argv[1]) as locks:
    def work():
        with locks.lease("feeds") as grant:
            grant.check()
    worker = threading.Thread(target=work)
    worker.start()
    waited_for.wait()
    child = os.fork()
    if child == 0:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    goes_on.set()
    worker.join()
"""

_WAITING_FOR_THE_WRITER_LOCK = """
import errno, os, sys, threading
from interlock import Interlock
from interlock.stores.sqlite import file, log

url, work = sys.argv[1:]
waits, goes_on, sync = threading.Event(), threading.Event(), log._sync

class WaitingLock(file.WriterLock):
    def __enter__(self):
        waits.set()
        goes_on.wait()
        super().__enter__()

def fail_once(descriptor):
    log._sync = sync
    raise OSError(errno.EIO, "the disk fails")

def make_ready_to_write(locks):
    locks.lease("feeds").acquire().release()

def make_ready_to_read(locks):
    locks.lease("feeds").try_acquire().release()

def begin_the_log_anew_to_write(locks):
    log._sync = fail_once
    locks.lease("feeds").acquire().release()

def begin_the_log_anew_to_read(locks):
    assert locks.once("done", lambda: 1) == 1

locks = Interlock(url)
if "anew" in work:
    with Interlock(url) as before:
        before.once("done", lambda: 1)
if work == "begin_the_log_anew_to_write":
    locks.open()
if work == "begin_the_log_anew_to_read":
    open(url.removeprefix("sqlite:///") + "-interlock/doubt", "w").close()
file.WriterLock = WaitingLock
worker = threading.Thread(target=globals()[work], args=(locks,))
worker.start()
waits.wait()
child = os.fork()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
goes_on.set()
worker.join()
locks.close()
"""

_OTHERS_COME_AND_GO = """
import os, sys, threading
from interlock.stores.sqlite import forks

inside, is_inside, may_leave = forks.InsideSqlite(), threading.Event(), threading.Event()
there = [forks.InsideSqlite() for _ in range(10)]
steps = 0

def stay_inside():
    with inside:
        is_inside.set()
        may_leave.wait()

def come_and_go(frame, event, argument):  # as other threads might, between any two steps of a fork
    global steps
    steps += 1
    if steps > 1000:
        may_leave.set()
    there.append(forks.InsideSqlite())
    del there[0]
    return come_and_go

worker = threading.Thread(target=stay_inside)
worker.start()
is_inside.wait()
sys.settrace(come_and_go)
child = os.fork()
sys.settrace(None)
if child == 0:
    os._exit(1 if inside.has_another else 0)
may_leave.set()
assert os.waitpid(child, 0)[1] == 0
"""


def test_children_of_a_busy_process_work_for_themselves(url: str, mine: sqlite3.Connection) -> None:
    succeeds(_CHILD, url)
    assert mine.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_fork_does_not_wait_for_the_disk(url: str) -> None:
    succeeds(_STILL, url)


def test_a_fork_waits_for_threads_inside_while_others_come_and_go() -> None:
    succeeds(_OTHERS_COME_AND_GO)


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize(
    "work",
    [
        "make_ready_to_write",
        "make_ready_to_read",
        "begin_the_log_anew_to_write",
        "begin_the_log_anew_to_read",
    ],
)
def test_a_fork_does_not_wait_for_a_thread_that_waits_for_the_writer_lock(url: str, work: str) -> None:
    """The holder of the writer lock may be waiting for the fork itself."""
    succeeds(_WAITING_FOR_THE_WRITER_LOCK, url, work)


def test_a_child_that_survives_does_not_make_its_parent_appear_alive(url: str, file: Path) -> None:
    from interlock import Interlock
    from interlock.stores.sqlite.wakeups import WakeUpSender

    with Interlock(url) as locks:
        grant = locks.lease("feeds").acquire()
        program = started(_ORPHAN, url)
        assert program.stdout is not None
        try:
            assert program.stdout.readline() == "waiting\n"
            directory = file.with_name("app.db-interlock")
            (name,) = [path.name for path in directory.iterdir() if path.is_socket()]
            assert WakeUpSender(directory).is_alive(name)
            program.kill()
            program.wait()
            assert not WakeUpSender(directory).is_alive(name)
            grant.release()
            locks.lease("feeds").acquire(timeout=20).release()
        finally:
            program.stdout.close()
            os.killpg(program.pid, 9)


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each time that a thread left SQLite: True if that was in the middle of a transaction."""
    used: dict[int, LogConnection] = {}
    left: list[bool] = []
    opened, leave = LeaseFile._opened, InsideSqlite.__exit__

    def note_opened(file: LeaseFile) -> LogConnection:
        used[threading.get_ident()] = connection = opened(file)
        return connection

    def note_left(inside: InsideSqlite, *exc_info: object) -> None:
        with suppress(KeyError, sqlite3.ProgrammingError):  # not open yet, or closed
            left.append(used[threading.get_ident()].in_transaction)
        leave(inside, *exc_info)

    monkeypatch.setattr(LeaseFile, "_opened", note_opened)
    monkeypatch.setattr(InsideSqlite, "__exit__", note_left)
    return left


def test_no_thread_leaves_sqlite_in_the_middle_of_a_transaction(url: str, left: list[bool]) -> None:
    """A child that is forked then would never end the transaction, and block every other process."""
    with Interlock(url) as locks, locks.lease("feeds"):
        assert locks.once("boot", lambda: 7) == 7
        assert locks.lease("feeds").try_acquire() is None
    assert left
    assert not any(left)


def test_no_thread_leaves_sqlite_in_a_transaction_that_could_not_make_a_file_ready(
    url: str, left: list[bool], mine: sqlite3.Connection
) -> None:
    with Interlock(url) as locks, locks.lease("feeds"):
        pass
    mine.execute("UPDATE interlock_file SET version = 99")
    mine.execute("PRAGMA journal_mode = DELETE")
    left.clear()
    with pytest.raises(errors.SchemaTooNew), Interlock(url) as locks:
        locks.lease("feeds").acquire()
    assert left
    assert not any(left)
