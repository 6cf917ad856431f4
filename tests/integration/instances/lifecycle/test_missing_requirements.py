"""Missing requirements with real drivers: the error names them, and nothing of the instance remains."""

import asyncio
import socket
from pathlib import Path

import pytest

from interlock import errors
from interlock.instances.drivers.kubernetes import KubernetesDriver, KubernetesSettings
from interlock.instances.drivers.local import LocalDriver
from support.instances import Plane, control_plane
from support.kube_api.server import running_fake
from support.local_instances import PG_BIN, local_driver, place_for_instances
from support.postgres import execute
from support.small_disk import small_disk

pytestmark = pytest.mark.timeout(200)

HELD = "SELECT scope, name FROM interlock.claim WHERE released_at IS NULL ORDER BY scope"


async def refused(plane: Plane, driver: LocalDriver, error: type[errors.InterlockError], words: str) -> None:
    """A failed creation: only the error remains."""
    failed = await plane.created("shop", dns_name="db.example.com")
    assert (failed.state, failed.working, failed.error_code) == ("failed", False, error.code)
    assert words in (failed.error or "")
    assert execute(plane.url, HELD) == []
    assert await driver.ids() == {}


@pytest.mark.exhaustive
async def test_missing_programs_are_reported(interlock_url: str, tmp_path: Path) -> None:
    with place_for_instances() as place:
        driver = LocalDriver(place, pg_bin=tmp_path)
        async with control_plane(interlock_url, driver) as plane:
            await refused(plane, driver, errors.BinariesMissing, "INTERLOCK_PG_BIN")


async def test_a_version_a_parameter_or_room_that_there_is_not(interlock_url: str) -> None:
    with place_for_instances() as place:
        driver = local_driver(place)
        async with control_plane(interlock_url, driver) as plane:
            told = await asyncio.gather(
                plane.created("version", version=99),
                plane.created("parameter", parameters={"no_such": "1"}),
                plane.created("room", storage="64Ti"),
            )
            assert [(one.state, one.error_code) for one in told] == [
                ("failed", "bad_spec"),
                ("failed", "bad_spec"),
                ("failed", "out_of_space"),
            ]
            reasons = ["PostgreSQL 99 is not on this machine", "no_such", "free some space"]
            for one, words in zip(told, reasons, strict=True):
                assert words in (one.error or "")
            assert execute(interlock_url, HELD) == []
            assert await driver.ids() == {}
            assert not list(place.iterdir())


async def test_ports_that_are_all_taken(interlock_url: str) -> None:
    with place_for_instances() as place, socket.create_server(("127.0.0.1", 0)) as taken:
        driver = LocalDriver(place, ports=[taken.getsockname()[1]], pg_bin=PG_BIN)
        async with control_plane(interlock_url, driver) as plane:
            await refused(plane, driver, errors.OutOfPorts, "port")


@pytest.mark.exhaustive
async def test_a_disk_that_is_full(interlock_url: str) -> None:
    with small_disk(30) as disk:
        driver = local_driver(disk / "instances")
        async with control_plane(interlock_url, driver) as plane:
            await refused(plane, driver, errors.OutOfSpace, "free some space")
        assert sorted(path.name for path in (disk / "instances").iterdir()) == ["ports.lock"]


@pytest.mark.exhaustive
async def test_an_api_server_that_does_not_answer(interlock_url: str, tmp_path: Path) -> None:
    """It is unknown if anything was created, so the names are held until the server can be reached."""
    kubeconfig = tmp_path / "kubeconfig"
    with running_fake() as cluster:
        answers = cluster.url
        with socket.create_server(("127.0.0.1", 0)) as listener:
            cluster.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        driver = KubernetesDriver(KubernetesSettings(kubeconfig=str(cluster.kubeconfig(kubeconfig))))
        async with control_plane(interlock_url, driver) as plane:
            failed = await plane.created("shop", dns_name="db.example.com")
            assert (failed.state, failed.error_code) == ("failed", "driver_unreachable")
            assert f"{cluster.url} does not answer" in (failed.error or "")
            assert "could not be undone, so delete the instance" in (failed.error or "")
            assert execute(interlock_url, HELD) == [("dns", "db.example.com"), ("instance", "shop")]
            cluster.url = answers
            cluster.kubeconfig(kubeconfig)
            assert (await plane.told(plane.instances.delete, failed.id)).state == "deleted"
            assert execute(interlock_url, HELD) == []
