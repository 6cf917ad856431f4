"""The backups domain for the harness: archives of a real instance, in a directory named by the environment."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from interlock.aggregate.record import Failure, Task, Transition
from interlock.embedded.clients import clients_for
from interlock.instances.backups import programs
from interlock.instances.backups.digest import archive_digest
from interlock.instances.backups.model import BackupSettings
from interlock.instances.drivers.local import LocalDriver
from support.durable_samples import Sample
from support.local_instances import PG_BIN
from support.paper_driver import SHARED
from support.postgres import execute

_WAYS: dict[str, tuple[str, ...]] = {"making": (), "made": ("made",), "deleting": ("made", "deleting")}
_INSERT = """
    INSERT INTO interlock.instance_backup (id, instance, instance_name, format, path, size_bytes, sha256,
           server_version, program_version, orchestration, created_by, working, created_at, updated_at, made_at)
    VALUES (%s, %s, 'shop', 'file', %s, %s, %s, %s, %s, %s, 'test', %s, %s, now(), now())
"""
Prepare = Callable[[str, str], None]


class Kept(BackupSettings):
    """Backup settings that read the directory each time, because one process serves many tests. One backup is kept."""

    keep = 1
    days = 0.0
    pg_bin = PG_BIN

    def __init__(self) -> None:
        """Does nothing."""

    @property
    def directory(self) -> Path:
        return _shelf()


def _place() -> Path:
    return Path(os.environ["BACKUPS_PLACE"])


def _shelf() -> Path:
    """An archive for each database, because ids are unique only within one."""
    return _place() / Path(urlsplit(os.environ["STEPS_URL"]).path).name


@contextmanager
def place_for_backups(driver: LocalDriver) -> Iterator[dict[str, str]]:
    """The environment, with an archive of the shared instance."""
    with tempfile.TemporaryDirectory(prefix="interlock-backups-") as place:
        asyncio.run(_dumped(driver, Path(place) / "archive.dump"))
        yield {"BACKUPS_PLACE": place}


async def _dumped(driver: LocalDriver, archive: Path) -> None:
    observation = await driver.observe(SHARED)
    assert observation.endpoint is not None
    clients = clients_for(int(observation.version or 0), PG_BIN)
    await programs.dump(clients, observation.endpoint, await driver.password(SHARED), "sample", "file", archive)
    archive.with_name("version").write_text(f"{clients.version[0]}.{clients.version[1]}")


def backup_of(instance: str, number: int = 0) -> str:
    return str(UUID(int=(UUID(instance).int + number) % 2**128))


def in_backup_state(state: str, before: Prepare, *, mine: bool = True, older: int = 0) -> Any:
    """A backup in that state, after `before` has made the record of its instance.

    With `mine` the orchestration `id` works on it, otherwise none. `older` backups were made before it.
    """

    def prepare(database: str, id: str) -> None:  # noqa: A002
        before(database, id)
        [[instance]] = execute(database, "SELECT id FROM interlock.instance WHERE orchestration = %s", id)
        for number in range(older + 1):
            backup, newest = backup_of(instance, number), number == 0
            archive = _place() / "archive.dump"
            at = datetime(2026, 1, 2 if newest else 1, 12, number, tzinfo=UTC)
            path = f"shop/{at:%Y%m%dT%H%M%SZ}-{backup}.1/archive.dump"
            if state != "making":
                (kept := _shelf() / path).parent.mkdir(parents=True)
                shutil.copyfile(archive, kept)
            version = archive.with_name("version").read_text()
            facts = [path, *asyncio.run(archive_digest(archive)), version, version] if state != "making" else [None] * 5
            execute(database, _INSERT, backup, instance, *facts, id if newest else "earlier", newest and mine, at)
            for step in _WAYS[state] if newest else _WAYS["made"]:
                execute(database, "UPDATE interlock.instance_backup SET state = %s WHERE id = %s", step, backup)

    return prepare


# Where the backup ended, and what happened, each kind once.
STATE = """
    SELECT array_agg((b.state, b.working, b.error_code, b.path IS NULL, b.verified_at IS NULL)::text ORDER BY b.id),
           (SELECT array_agg(e.kind ORDER BY e.kind) FROM interlock.event e WHERE e.subject = md5(%(id)s))
      FROM interlock.instance_backup b WHERE b.instance = md5(%(id)s)
"""
NOTHING = "SELECT 1"


def _count(condition: str) -> str:
    return f"SELECT count(*) FROM interlock.instance_backup WHERE instance = md5(%(id)s) AND {condition}"


def _event(kind: str) -> str:
    return f"SELECT count(*) FROM interlock.event WHERE subject = md5(%(id)s) AND kind = '{kind}'"


def samples(
    task: Callable[[str], Task], in_state: Callable[..., Prepare]
) -> tuple[dict[str, Sample], dict[str, Sample]]:
    """Samples of activities and of orchestrations. `in_state` makes an instance's record, as for those of instances."""
    running = in_state("running")

    def step(state: str, effects: str = NOTHING, kind: str = "", *, value: Any = task, older: int = 0) -> Sample:
        prepare = in_backup_state(state, running, older=older)
        return Sample(value, effects, _event(kind) if kind else NOTHING, prepare=prepare)

    def way(state: str, *, older: int = 0) -> Sample:
        return Sample(task, state=STATE, prepare=in_backup_state(state, running, older=older))

    failed = Failure("trouble", "It could not be.")
    activities = {
        "backups.acquire_slot": step("making", _count("begun_at IS NOT NULL")),
        "backups.dump": step("making", _count("state = 'made' AND NOT working"), "backup made"),
        "backups.read_back": step("made", _count("verified_at IS NOT NULL"), "backup verified"),
        "backups.clear_away": step("deleting"),
        "backups.read_state": step("making"),
        "backups.read_failure": step("making"),
        "backups.has_ended": step("deleting"),
        "backups.transition": step(
            "making",
            _count("state = 'failed' AND error_code = 'trouble'"),
            "backup failed",
            value=lambda key: Transition(task(key), "fail", failure=failed),
        ),
        "backups.retain": step("made", _count("state = 'deleting'"), older=1),
    }
    orchestrations = {
        "backups.make": way("making"),
        "backups.discard": way("making"),
        "backups.verify": way("made"),
        "backups.leave": way("made"),
        "backups.delete": way("deleting"),
        "backups.give_up": way("deleting"),
    }
    return activities, orchestrations
