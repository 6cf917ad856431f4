"""A restore happens once, whatever happens to its worker, and excludes backups of the instance."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from interlock import errors
from interlock.aggregate.events import RecordHistory
from interlock.instances.backups import programs
from interlock.instances.backups.records import BackupRecord
from interlock.instances.backups.restore_proxy import Permit
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.records import InstanceRecord
from support.instances import Plane
from support.local_instances import as_owner
from support.paper_driver import SHARED
from support.postgres import execute
from support.waiting import PATIENCE

pytestmark = pytest.mark.timeout(200)

Step = Callable[[Permit], Awaitable[None]]
ROWS = "SELECT count(*) FROM item"
LATER = "INSERT INTO item VALUES (-1, 'written since')"
TOLD = "SELECT kind, count(*) FROM interlock.event WHERE kind LIKE 'restor%' GROUP BY kind ORDER BY kind"
OVERTAKE = """
    SELECT interlock.begin_attempt_v1(a.root, a.orchestration, a.execution, a.step)
      FROM interlock.attempt a JOIN interlock.instance i ON i.orchestration = a.orchestration
     ORDER BY a.step DESC LIMIT 1
"""


@pytest.fixture
async def made(plane: Plane, shop: InstanceRecord) -> BackupRecord:
    return await plane.backed_up(shop.id)


@asynccontextmanager
async def item_locked(real: LocalDriver, how: str) -> AsyncIterator[None]:
    connection = await as_owner(real, SHARED)
    try:
        async with connection.transaction():
            await connection.execute(f"LOCK TABLE item IN {how} MODE")
            yield
    finally:
        await connection.close()


async def waits(owner: "asyncpg.Connection[Any]", purpose: str, sessions: int = 1) -> None:
    """Wait until so many sessions wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'"
    async with asyncio.timeout(PATIENCE):
        while await owner.fetchval(query, f"interlock {purpose}") != sessions:  # noqa: ASYNC110 - there is no notification
            await asyncio.sleep(0.02)


@pytest.mark.exhaustive
async def test_an_instance_is_not_backed_up_during_a_restore_nor_restored_during_a_backup(
    plane: Plane, shop: InstanceRecord, made: BackupRecord, real: LocalDriver, owner: "asyncpg.Connection[Any]"
) -> None:
    """A dump that waits for the tables would see the new ones, but no row in them, by its older snapshot."""
    async with item_locked(real, "ACCESS SHARE"):
        restoring = await plane.ask(plane.backups.restore_into, made.id, shop.id)
        await waits(owner, f"restore {shop.id}")
        with pytest.raises(errors.InstanceBusy) as busy:
            await plane.ask(plane.backups.make, shop.id)
        assert busy.value.orchestration == restoring.orchestration
        await plane.ask(plane.instances.cancel, shop.id)
        assert (await plane.done(restoring)).error_code == "cancelled"
        await waits(owner, f"restore {shop.id}", sessions=0)  # and the table is free again

    async with item_locked(real, "ACCESS EXCLUSIVE"):
        making = await plane.ask(plane.backups.make, shop.id)
        await waits(owner, f"backup {making.id}")
        with pytest.raises(errors.BackupBusy, match=f"{making.id} of shop is being made") as unfinished:
            await plane.ask(plane.backups.restore_into, made.id, shop.id)
    assert unfinished.value.orchestration == making.orchestration
    assert (await plane.backup_done(making)).state == "made"
    assert (await plane.told(plane.backups.restore_into, made.id, shop.id)).error is None


class Attempts:
    """`first` runs instead of the first attempt's pg_restore, and receives that. `count` counts the runs."""

    def __init__(self, first: Callable[[Step, Permit], Awaitable[None]]) -> None:
        self._first = first
        self._real = programs.restore
        self.count = 0

    async def restore(self, *args: Any, grants: bool, permit: Permit) -> None:
        self.count += 1

        async def run(permit: Permit) -> None:
            await self._real(*args, grants=grants, permit=permit)

        await (self._first(run, permit) if self.count == 1 else run(permit))


async def restored_by(
    plane: Plane, shop: InstanceRecord, made: BackupRecord, first: Callable[[Step, Permit], Awaitable[None]]
) -> int:
    """Restore with `first` as the first attempt. Returns the number of attempts."""
    attempts = Attempts(first)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(programs, "restore", attempts.restore)
        restored = await plane.told(plane.backups.restore_into, made.id, shop.id)
    assert (restored.error, restored.working) == (None, False)
    kinds, counts = zip(*execute(plane.url, TOLD), strict=True)
    assert (kinds, len(set(counts))) == (("restore requested", "restored", "restoring"), 1)
    return attempts.count


async def test_a_restore_commits_once_wherever_its_worker_dies_or_stops(
    plane: Plane, shop: InstanceRecord, made: BackupRecord, owner: "asyncpg.Connection[Any]"
) -> None:
    refused: list[type] = []

    async def falls_after_the_commit(run: Step, permit: Permit) -> None:
        await run(permit)
        await owner.execute(LATER)
        raise errors.ConnectionLost("The database went away: it comes back.")

    async def falls_before_the_commit(run: Step, permit: Permit) -> None:
        async def then_fall(number: str) -> None:
            await permit(number)
            raise errors.ConnectionLost("The database went away: it comes back.")

        await run(then_fall)

    async def stands_still_before_it_begins(run: Step, permit: Permit) -> None:
        """The attempt has no session that another one could end."""
        execute(plane.url, OVERTAKE)
        await owner.execute(LATER)
        try:
            await run(permit)
        except errors.InterlockError as error:
            refused.append(type(error))
            assert await owner.fetchval(ROWS) == 501
            raise

    async def has_no_database_for_a_moment(run: Step, permit: Permit) -> None:
        real_note, missed = RecordHistory.note, list[str]()

        async def note(self: RecordHistory, connection: Any, id: str, kind: str, *args: Any, **more: Any) -> None:  # noqa: A002
            if kind == "restoring" and not missed:
                missed.append(kind)
                raise errors.ConnectionLost("The database went away: it comes back.")
            await real_note(self, connection, id, kind, *args, **more)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(RecordHistory, "note", note)
            await run(permit)
        assert missed

    await owner.execute("DELETE FROM item")
    assert await restored_by(plane, shop, made, has_no_database_for_a_moment) == 1
    assert await owner.fetchval(ROWS) == 500
    assert await restored_by(plane, shop, made, falls_after_the_commit) == 1
    assert await owner.fetchval(ROWS) == 501
    assert await restored_by(plane, shop, made, falls_before_the_commit) == 2
    assert await owner.fetchval(ROWS) == 500
    assert await restored_by(plane, shop, made, stands_still_before_it_begins) == 2
    assert (refused, await owner.fetchval(ROWS)) == ([errors.AttemptSuperseded], 500)
