"""Drift of real instances, found and repaired by a role with only the privileges for instances."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from interlock import schema
from interlock.embedded.postmaster import read_postmaster
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Spec
from interlock.instances.upkeep.history import History
from interlock.instances.upkeep.watchers import Watchers
from support.drift import watching
from support.instances import control_plane
from support.local_instances import local_driver, place_for_instances
from support.postgres import execute

pytestmark = pytest.mark.exhaustive

FORBIDDEN = [
    "DELETE FROM interlock.instance",
    "UPDATE interlock.event SET kind = 'other'",
    "UPDATE interlock.instance_check SET healthy = true",
    "UPDATE interlock.claim SET owner = 'me'",
    "TRUNCATE interlock.instance_drift",
    "CREATE TABLE interlock.own ()",
]


@pytest.fixture
def place() -> Iterator[Path]:
    with place_for_instances() as place:
        yield place


@pytest.fixture
def granted_url(interlock_url: str) -> str:
    parts = urlsplit(interlock_url)
    role = f"plane_of_{parts.path.lstrip('/')}"
    execute(interlock_url, f"CREATE ROLE {role} LOGIN PASSWORD 'geheim'")
    uses: list[schema.Use] = ["leases", "claims", "orchestrations", "instances"]
    execute(interlock_url, schema.grant_sql(role, "interlock", uses))
    execute(interlock_url, f"CREATE SCHEMA interlock_engine AUTHORIZATION {role}")
    return urlunsplit(parts._replace(netloc=f"{role}:geheim@{parts.hostname}:{parts.port}"))


def killed(directory: Path) -> None:
    """Kill its server, as a crash of the machine does."""
    data = directory / "postgresql" / "data"
    postmaster = read_postmaster(data)
    assert postmaster is not None
    os.kill(postmaster.pid, SIGKILL)


async def looks(driver: LocalDriver, id: str, state: str) -> None:  # noqa: A002
    while (await driver.observe(id)).state != state:  # noqa: ASYNC110 # there is no signal
        await asyncio.sleep(0.05)


@pytest.mark.timeout(300)
async def test_stopped_instances_are_started_lost_ones_reported_and_orphans_removed(
    granted_url: str, place: Path
) -> None:
    driver = local_driver(place)
    async with control_plane(granted_url, driver) as plane, watching(plane) as watch:
        made = await plane.created("shop", dns_name="db.example.com", parameters={"shared_buffers": "16MB"})
        assert (made.state, await watch.observe()) == ("running", [])

        killed(place / made.id)
        await looks(driver, made.id, "stopped")
        assert await watch.observe() == [("wrong_state", made.id)]
        assert "ended unexpectedly" in (await watch.open())[0].detail
        await plane.durable.handle(plane.lifecycle.mend, await watch.repair()).wait(100)
        assert (await plane.read(made.id)).state == "running"
        assert await watch.observe() == []

        await driver.provision(Spec("unheard-of", "stray", parameters={"shared_buffers": "16MB"}))
        assert await watch.observe() == [("orphan", "unheard-of")]
        await plane.durable.handle(plane.lifecycle.orphans.remove, await watch.repair()).wait(100)
        assert await watch.observe() == []
        assert await driver.ids() == {made.id: "shop"}
        assert not (place / "unheard-of").exists()

        await plane.told(plane.instances.stop, made.id)
        shutil.rmtree(place / made.id / "postgresql" / "data")
        assert await watch.observe() == [("wrong_state", made.id)]
        assert "The instance's data are gone" in (await watch.open())[0].detail
        shutil.rmtree(place / made.id)
        assert await watch.observe() == [("vanished", made.id)]
        await plane.durable.handle(plane.lifecycle.mend, await watch.repair()).wait(100)
        lost = await plane.read(made.id)
        assert (lost.state, lost.error_code) == ("failed", "vanished")
        assert (await plane.told(plane.instances.delete, made.id)).state == "deleted"
        assert await watch.observe() == []

        context = plane.lifecycle.context
        assert await Watchers(context, plane.lifecycle.health).restore() == 0
        assert await History(context, events_kept=0.001, checks_kept=0.001).prune() > 0
    for statement in FORBIDDEN:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            execute(granted_url, statement)
