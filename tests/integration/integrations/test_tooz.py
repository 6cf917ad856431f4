"""The driver for tooz, beyond tooz's own tests of it."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from unittest import mock

import psycopg
import pytest
import tooz
from tooz import coordination

from interlock import LeaseLost
from interlock.integrations.tooz import PostgresDriver, groups
from interlock.integrations.tooz.groups import Groups
from support.postgres import execute
from support.waiting import eventually

Coordinator = Callable[..., PostgresDriver]


@pytest.fixture
def coordinator(interlock_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Coordinator]:
    monkeypatch.setattr(groups, "_LIST_TTL", 30.0)  # no process dies here, and the machine may be slow
    made: list[Any] = []

    def make(member_id: bytes = b"one", *, start: bool = True, **options: Any) -> Any:
        made.append(coordination.get_coordinator(f"interlock+{interlock_url}", member_id, **options))
        if start:
            made[-1].start()
        return made[-1]

    yield make
    for each in made:
        if each.is_started:
            each.stop()


def ignore(event: object) -> None:
    """A callback that records its events."""


@pytest.mark.exhaustive
def test_a_member_without_heartbeat_leaves_groups_and_leadership_and_keeps_locks(coordinator: Coordinator) -> None:
    silent, watching = coordinator(b"silent", timeout=4), coordinator(b"watching", timeout=4)
    watching.heart.start()
    silent.create_group(b"group").get()
    silent.join_group(b"group").get()
    silent.watch_elected_as_leader(b"group", ignore)
    silent.run_watchers()
    lock = silent.get_lock(b"lock")
    assert lock.acquire()
    assert watching.get_leader(b"group").get() == b"silent"
    eventually(lambda: watching.get_members(b"group").get() == set())
    assert watching.get_leader(b"group").get() is None
    assert lock.is_still_owner()
    assert not watching.get_lock(b"lock").acquire(blocking=False)


@pytest.mark.exhaustive
def test_a_member_with_heartbeats_stays(coordinator: Coordinator) -> None:
    beating, silent = coordinator(b"beating", timeout=4), coordinator(b"silent", timeout=4)
    beating.heart.start()
    beating.create_group(b"group").get()
    beating.join_group(b"group").get()
    silent.join_group(b"group").get()
    eventually(lambda: beating.get_members(b"group").get() == {b"beating"})
    beats = beating.heart.beats
    eventually(lambda: beating.heart.beats > beats + 4)
    assert beating.get_members(b"group").get() == {b"beating"}


def test_a_lock_s_grant_guards_a_transaction(coordinator: Coordinator, interlock_url: str) -> None:
    execute(interlock_url, "CREATE TABLE written (by text)")
    late, next_one = coordinator(b"late").get_lock(b"lock"), coordinator(b"next").get_lock(b"lock")
    assert late.acquire()
    grant = late.grant
    assert grant
    with psycopg.connect(interlock_url) as connection:
        grant.guard(connection)
        connection.execute("INSERT INTO written VALUES ('in time')")
    assert next_one.break_()
    assert next_one.acquire(blocking=False)
    assert next_one.grant
    assert next_one.grant.token > grant.token
    with psycopg.connect(interlock_url) as connection:
        connection.execute("INSERT INTO written VALUES ('too late')")
        with pytest.raises(LeaseLost):
            grant.guard(connection)
    assert execute(interlock_url, "SELECT by FROM written") == [("in time",)]
    assert not late.release()
    assert next_one.is_still_owner()


def test_a_thread_releases_what_it_acquired_itself(coordinator: Coordinator) -> None:
    lock = coordinator().get_lock(b"lock")
    assert lock.acquire()
    assert lock.break_()
    acquired, may_go, released = threading.Event(), threading.Event(), []

    def other() -> None:
        assert lock.acquire(blocking=5)
        acquired.set()
        may_go.wait(20)
        released.append(lock.release())

    thread = threading.Thread(target=other)
    thread.start()
    assert acquired.wait(20)
    assert not lock.release(), "ours was taken from us; the other thread's stays"
    may_go.set()
    thread.join()
    assert released == [True]


def test_shared_locks_exclude_an_exclusive_one(coordinator: Coordinator) -> None:
    first, second, alone = (coordinator(name, readers=3).get_lock(b"lock") for name in (b"1", b"2", b"3"))
    assert first.acquire(shared=True)
    assert first.acquire(shared=True), "again, by the same thread"
    assert second.acquire(shared=True)
    assert not alone.acquire(blocking=False)
    assert [first.release(), first.release(), first.release()] == [True, True, False]
    assert not alone.acquire(blocking=False)
    assert alone.break_()
    assert alone.acquire()
    assert not second.release()
    assert not first.acquire(blocking=False, shared=True)
    assert alone.break_()
    assert not alone.release()
    with pytest.raises(tooz.NotImplemented, match="readers=20"):
        coordinator(b"4").get_lock(b"lock").acquire(shared=True)


def test_a_wait_for_a_lock_ends_at_its_timeout(coordinator: Coordinator) -> None:
    assert coordinator(b"one").get_lock(b"lock").acquire()
    waiting = coordinator(b"two").get_lock(b"lock")
    assert not waiting.acquire(blocking=0.2)
    assert not waiting.acquire(timeout=0)


def test_waiting_for_ones_own_lock_is_an_error(coordinator: Coordinator) -> None:
    lock = coordinator().get_lock(b"lock")
    assert lock.acquire()
    with pytest.raises(tooz.ToozError, match="would wait for itself without end"):
        lock.acquire()


def test_a_member_that_updates_its_capabilities_is_never_missing(coordinator: Coordinator) -> None:
    member, watching = coordinator(b"member"), coordinator(b"watching")
    member.create_group(b"group").get()
    member.join_group(b"group", {"version": 0}).get()
    seen: list[dict[bytes, Any]] = []
    watching.watch_leave_group(b"group", seen.append)  # type: ignore[arg-type]
    for version in range(1, 6):
        update = member.update_capabilities(b"group", {"version": version})
        while not update.done():
            found = watching.get_members_with_capabilities(b"group").get()
            assert found[b"member"] in ({"version": version - 1}, {"version": version})
            watching.run_watchers()
        update.get()
        assert watching.get_member_capabilities(b"group", b"member").get() == {"version": version}
    info = watching.get_member_info(b"group", b"member").get()
    assert info["updated_at"] > info["created_at"]
    assert seen == []


def test_updates_of_a_dead_member_of_the_same_id_are_ignored(coordinator: Coordinator, interlock_url: str) -> None:
    dead, alive = coordinator(b"member"), coordinator(b"member")
    dead.create_group(b"group").get()
    dead.join_group(b"group").get()
    dead.update_capabilities(b"group", {"of": "the dead"}).get()
    alive.leave_group(b"group").get()
    alive.join_group(b"group", {"of": "the living"}).get()
    assert len(execute(interlock_url, "SELECT 1 FROM interlock.held_v1('tooz##member/group/member/')")) == 1
    assert alive.get_member_capabilities(b"group", b"member").get() == {"of": "the living"}


def test_a_member_that_joins_during_a_deletion_is_in_the_group_or_not(coordinator: Coordinator) -> None:
    deleting, joining = coordinator(b"deleting"), coordinator(b"joining")
    deleting.create_group(b"group").get()
    write = Groups._write

    async def write_late(groups: Groups, names: list[bytes], grant: Any) -> None:
        """The member joins after the first check for members, and before the list is written."""
        if not joined:
            joined.append(joining.join_group(b"group").get())
        await write(groups, names, grant)

    joined: list[None] = []
    with mock.patch.object(Groups, "_write", write_late), pytest.raises(coordination.GroupNotEmpty):
        deleting.delete_group(b"group").get()
    assert deleting.get_members(b"group").get() == {b"joining"}


def test_a_member_that_joins_after_the_list_was_written_is_not_in_the_group(coordinator: Coordinator) -> None:
    deleting, joining = coordinator(b"deleting"), coordinator(b"joining")
    deleting.create_group(b"group").get()
    require = Groups._require

    async def require_late(groups: Groups, group: bytes) -> None:
        """The member has its lease already, and other processes see it."""
        with mock.patch.object(Groups, "_require", require):
            with pytest.raises(coordination.GroupNotEmpty):
                deleting.delete_group(group).get()
            await require(groups, group)

    with mock.patch.object(Groups, "_require", require_late):
        joining.join_group(b"group").get()
    assert deleting.get_members(b"group").get() == {b"joining"}
    joining.leave_group(b"group").get()
    deleting.delete_group(b"group").get()
    with pytest.raises(coordination.GroupNotCreated):
        joining.join_group(b"group").get()
    deleting.create_group(b"group").get()
    eventually(lambda: deleting.get_members(b"group").get() == set())  # the member releases its lease


def test_ids_may_be_any_bytes(coordinator: Coordinator) -> None:
    one = coordinator(b"a/b\x00##\xff")
    one.create_group("grüne/gruppe".encode()).get()
    one.create_group(b"gr").get()
    one.join_group("grüne/gruppe".encode()).get()
    assert set(one.get_groups().get()) == {"grüne/gruppe".encode(), b"gr"}
    assert one.get_members("grüne/gruppe".encode()).get() == {b"a/b\x00##\xff"}
    assert one.get_members(b"gr").get() == set()
    assert one.get_lock(b"\x00/\n").acquire()


def test_a_member_that_unwatches_the_election_lets_another_lead(coordinator: Coordinator) -> None:
    first, second = coordinator(b"first"), coordinator(b"second")
    led: list[bytes] = []
    for each in (first, second):
        each.watch_elected_as_leader(b"group", lambda event: led.append(event.member_id))
    first.run_watchers()
    second.run_watchers()
    assert led == [b"first"]
    first.unwatch_elected_as_leader(b"group", first._hooks_elected_leader[b"group"][0])
    second.run_watchers()
    assert led == [b"first", b"second"]
    assert not first.stand_down_group_leader(b"group")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"timeout": "soon"}, "timeout='soon'"),
        ({"timeout": 0.1}, "ttl of 0.1 s cannot work"),
        ({"readers": "many"}, "readers='many'"),
    ],
)
def test_options_that_cannot_work_are_refused(coordinator: Coordinator, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(tooz.ToozError, match=sentence):
        coordinator(start=False, **options)


def test_an_unusable_database_is_an_error_at_the_start(database_url: str) -> None:
    lacking: Any = coordination.get_coordinator(f"interlock+{database_url}", b"one")
    with pytest.raises(tooz.ToozError, match="interlock schema apply"):
        lacking.start()
    assert not lacking.is_started


def test_a_coordinator_that_is_not_started_raises(coordinator: Coordinator) -> None:
    idle = coordinator(start=False)
    for work in (partial(idle.create_group, b"group"), partial(idle.stand_down_group_leader, b"group")):
        with pytest.raises(tooz.ToozError, match=r"call start\(\) first"):
            work()


def test_bad_input_raises_toozs_error(coordinator: Coordinator) -> None:
    one = coordinator()
    one.create_group(b"group").get()
    with pytest.raises(tooz.ToozError, match="use 255 bytes at most"):
        one.get_lock(b"x" * 300)
    with pytest.raises(tooz.ToozError, match="written as JSON"):
        one.join_group(b"group", {"what": object()}).get()
    with pytest.raises(tooz.ToozError, match="4096 bytes at most"):
        one.join_group(b"group", {"what": "x" * 5000}).get()
    assert one.get_members(b"group").get() == set()
