"""Session locks for threads, without an event loop."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from interlock import Interlock, errors
from interlock.bridge import LoopThread
from interlock.coordination.sync.session_lock import SessionLock
from support.postgres import execute, kept_connections
from support.session_locks import end, holder, in_line, locks_at, sessions
from support.waiting import eventually

Locks = Callable[..., SessionLock]


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    loop = LoopThread("test-loop")
    yield loop
    loop.close()


@pytest.fixture
def locks(database_url: str, loop: LoopThread) -> Locks:
    make = locks_at(database_url)
    return lambda *args, **options: SessionLock(make(*args, **options), loop)


def test_only_one_holder_at_a_time(locks: Locks, database_url: str) -> None:
    with locks() as grant:
        assert grant.name == locks().name == "feeds"
        assert holder(database_url) == grant.backend_pid
        grant.check()
        assert not grant.lost
        assert locks().try_acquire() is None
    with locks().acquire(timeout=5) as grant:
        assert holder(database_url) == grant.backend_pid
    tried = locks().try_acquire()
    assert tried is not None
    with tried:
        pass
    assert sessions(database_url) == set()


def test_closing_the_root_object_releases_its_session_locks(database_url: str) -> None:
    locks = Interlock(database_url)
    grant = locks.session_lock("feeds", ttl=3600).acquire()
    assert holder(database_url) == grant.backend_pid
    locks.close()
    eventually(lambda: holder(database_url) is None)
    grant.release()
    locks.close()


def test_threads_that_share_a_lock_take_turns(locks: Locks) -> None:
    lock = locks()
    inside = most = rounds = 0

    def work(_: int) -> None:
        nonlocal inside, most, rounds
        with lock:
            inside, rounds = inside + 1, rounds + 1
            most = max(most, inside)
            time.sleep(0)
            inside -= 1

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(16)))
    assert (most, rounds) == (1, 16)


def test_a_thread_that_would_wait_for_itself_gets_an_error(locks: Locks) -> None:
    with locks():
        with pytest.raises(errors.SessionLockNested):
            locks().acquire()
        with ThreadPoolExecutor(1) as other, pytest.raises(errors.SessionLockTimeout):
            other.submit(locks().acquire, timeout=0).result()


def test_a_loss_is_reported_and_raises_at_the_end_of_the_block(locks: Locks, database_url: str) -> None:
    told = threading.Event()

    def work() -> None:
        with locks() as grant:
            grant.on_lost(lambda _: told.set())
            end(database_url, grant.backend_pid)
            assert told.wait(10)
            assert grant.lost
            assert grant.wait_lost()
            with pytest.raises(errors.SessionLockLost):
                grant.check()

    with pytest.raises(errors.SessionLockLost):
        work()


def test_the_blocks_own_error_is_kept_as_the_cause(locks: Locks, database_url: str) -> None:
    def work() -> None:
        with locks() as grant:
            end(database_url, grant.backend_pid)
            raise LookupError("on the way out")

    with pytest.raises(errors.SessionLockLost) as lost:
        work()
    assert isinstance(lost.value.__cause__, LookupError)


def test_heartbeats_go_on_while_the_thread_computes(locks: Locks, database_url: str) -> None:
    last_heard = "SELECT query_start FROM pg_stat_activity WHERE pid = %s"
    with locks(ttl=5) as grant, kept_connections():
        granted_at = execute(database_url, last_heard, grant.backend_pid)
        while execute(database_url, last_heard, grant.backend_pid) == granted_at:
            for _ in range(10_000):
                grant.check()


def test_a_caller_interrupted_during_the_wait_leaves_nothing_behind(locks: Locks, database_url: str) -> None:
    main = threading.get_ident()

    def interrupt() -> None:
        eventually(lambda: in_line(database_url))
        signal.pthread_kill(main, signal.SIGINT)

    with ThreadPoolExecutor(1) as other:
        held = other.submit(locks().acquire).result()
        interrupting = other.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            locks().acquire()
        interrupting.result()
        assert sessions(database_url) == {held.backend_pid}
        held.release()


def test_a_caller_interrupted_just_when_it_gets_the_lock_does_not_keep_it(
    locks: Locks, loop: LoopThread, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = loop.run

    def interrupted_at_the_end(coroutine: object) -> None:
        run(coroutine)  # type: ignore[arg-type] # whatever it is given
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "run", interrupted_at_the_end)
    with pytest.raises(KeyboardInterrupt):
        locks().acquire()
    assert sessions(database_url) == set()
