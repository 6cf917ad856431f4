"""Instances outlive the process that created them, and a restart of the machine."""

import asyncio
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from conformance.drivers.stage import seen
from interlock.embedded.locks import exclusive
from interlock.embedded.orphans import processes_of
from interlock.embedded.paths import ClusterPaths
from interlock.embedded.processes import has_ended, wait_until
from interlock.errors import InstanceAbsent
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Spec
from support.local_instances import connected, local_driver, run_until
from support.unrelated_processes import give_process_id, process_of_the_servers_user


def processes(root: Path, spec: Spec) -> list[int]:
    return processes_of(ClusterPaths(root / spec.id / "postgresql"))


def end_as_a_power_cut_does(root: Path, spec: Spec) -> None:
    killed = processes(root, spec)
    for pid in killed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: all(map(has_ended, killed)), timeout=30)


async def test_an_instance_runs_on_when_its_creating_process_has_ended(
    root: Path, driver: LocalDriver, spec: Spec
) -> None:
    assert not await asyncio.to_thread(run_until, root, "provision", spec, 1000)

    assert (await driver.observe(spec.id)).state == "running"
    for pid in processes(root, spec):
        assert os.getsid(pid) != os.getsid(0)


async def test_after_a_power_cut_a_start_brings_it_up(root: Path, driver: LocalDriver, spec: Spec) -> None:
    await driver.provision(spec)
    before = await driver.observe(spec.id)
    end_as_a_power_cut_does(root, spec)

    observation = await driver.observe(spec.id)
    assert observation.state == "stopped"
    assert "start the instance again" in observation.detail

    await driver.start(spec.id)
    assert await driver.observe(spec.id) == before


async def test_a_process_id_that_is_anothers_by_now_is_not_taken_for_the_server(
    root: Path, driver: LocalDriver, spec: Spec
) -> None:
    """The other process has the same user, which PostgreSQL itself would take for the old server."""
    await driver.provision(spec)
    before = await driver.observe(spec.id)
    end_as_a_power_cut_does(root, spec)
    with process_of_the_servers_user() as stranger:
        give_process_id(root / spec.id / "postgresql" / "data", stranger.pid)

        assert (await driver.observe(spec.id)).state == "stopped"
        await driver.stop(spec.id)
        await driver.start(spec.id)
        assert await driver.observe(spec.id) == before
        await driver.remove(spec.id)
        assert stranger.poll() is None


async def test_a_server_whose_directory_was_removed_by_hand_is_ended_with_the_instance(
    root: Path, driver: LocalDriver, spec: Spec
) -> None:
    await driver.provision(spec)
    assert processes(root, spec)
    sockets = Path((root / spec.id / "postgresql" / "data" / "postmaster.pid").read_text().splitlines()[4])
    assert sockets.is_relative_to("/tmp")  # the path is too long for sockets
    shutil.rmtree(root / spec.id)

    await driver.remove(spec.id)

    assert processes(root, spec) == []
    assert not sockets.exists()
    assert (await driver.observe(spec.id)).state == "absent"


async def test_a_half_created_instance_reports_if_work_goes_on(root: Path, driver: LocalDriver, spec: Spec) -> None:
    assert await asyncio.to_thread(run_until, root, "provision", spec, 2)

    observation = await driver.observe(spec.id)
    assert observation.state == "broken"
    assert "provision the instance again, or remove it" in observation.detail
    with exclusive(root / spec.id / "lock", lambda: None):
        assert (await driver.observe(spec.id)).state == "starting"


async def test_a_half_created_running_instance_is_completed_by_the_next_request(root: Path, spec: Spec) -> None:
    """The running server was started for another port, and with other parameters."""
    assert await asyncio.to_thread(run_until, root, "provision", spec, 6)
    other = local_driver(root, first_port=19000)
    wanted = Spec(spec.id, spec.name, parameters={"max_connections": "23"})

    await other.provision(wanted)

    observation = await seen(other, spec.id, "running")
    assert observation.endpoint is not None
    assert observation.endpoint.port in range(19000, 19040)
    connection = await connected(observation.endpoint, await other.password(spec.id))
    assert await connection.fetchval("SHOW max_connections") == "23"
    await connection.close()


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize("step", [1, 2, 3])
async def test_a_half_removed_instance_does_not_count_as_complete(
    root: Path, driver: LocalDriver, spec: Spec, step: int
) -> None:
    await driver.provision(spec)
    assert await asyncio.to_thread(run_until, root, "remove", spec, step)

    assert "was interrupted" in (await driver.observe(spec.id)).detail
    with pytest.raises(InstanceAbsent, match="is incomplete"):
        await driver.start(spec.id)
    await driver.provision(spec)
    assert (await driver.observe(spec.id)).state == "running"


async def test_a_cancelled_request_is_completed(root: Path, driver: LocalDriver, spec: Spec) -> None:
    request = asyncio.ensure_future(driver.provision(spec))
    while spec.id not in await driver.ids():  # noqa: ASYNC110 - there is no notification
        await asyncio.sleep(0)
    request.cancel()
    with suppress(asyncio.CancelledError):
        await request

    await local_driver(root).provision(spec)

    assert (await driver.observe(spec.id)).state == "running"


async def test_an_instance_whose_lock_was_removed_by_hand_goes_wholly(
    root: Path, driver: LocalDriver, spec: Spec
) -> None:
    await driver.provision(spec)
    (root / spec.id / "postgresql" / "control.lock").unlink()

    await driver.remove(spec.id)

    assert processes(root, spec) == []
    assert not (root / spec.id).exists()


async def test_missing_data_are_reported(root: Path, driver: LocalDriver, spec: Spec) -> None:
    await driver.provision(spec)
    await driver.stop(spec.id)
    (root / spec.id / "postgresql" / "data").rename(root / "elsewhere")

    observation = await driver.observe(spec.id)

    assert observation.state == "broken"
    assert "The instance's data are gone" in observation.detail
    await driver.remove(spec.id)
    assert (await driver.observe(spec.id)).state == "absent"
