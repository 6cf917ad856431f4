"""Every instance has a port of its own, and keeps it."""

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from interlock.errors import AddressInUse, OutOfPorts
from interlock.instances.drivers.local import LocalDriver, creation
from interlock.instances.drivers.local.directory import Directory
from interlock.instances.drivers.local.marker import Marker
from interlock.instances.drivers.port import Spec
from support.local_instances import FIRST_PORT, PG_BIN, local_driver, new_spec


def listener(port: int = 0) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


async def port_of(driver: LocalDriver, spec: Spec) -> int:
    endpoint = (await driver.observe(spec.id)).endpoint
    assert endpoint is not None
    return endpoint.port


def test_the_choice_of_a_port_is_exclusive_until_it_is_written_down(root: Path) -> None:
    root.mkdir()
    alone = threading.Lock()

    def choose(number: int) -> int:
        directory = Directory(root, f"instance-{number}")

        def write_down(port: int) -> Marker:
            assert alone.acquire(blocking=False)
            directory.path.mkdir()
            marker = Marker(directory.id, "shop", port, 17).write(directory)
            alone.release()
            return marker

        return creation.choose_port(root, range(FIRST_PORT, FIRST_PORT + 20), (), write_down).port

    with ThreadPoolExecutor(20) as pool:
        chosen = list(pool.map(choose, range(20)))

    assert sorted(chosen) == list(range(FIRST_PORT, FIRST_PORT + 20))


@pytest.mark.exhaustive
async def test_a_port_that_is_taken_is_passed_over(root: Path, spec: Spec) -> None:
    with listener(FIRST_PORT):
        driver = local_driver(root)
        await driver.provision(spec)

    assert await port_of(driver, spec) == FIRST_PORT + 1


async def test_a_port_that_is_taken_after_it_was_chosen_is_given_up(
    root: Path, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creation, "free_port", lambda port: port)
    driver = local_driver(root)
    with listener(FIRST_PORT):
        await driver.provision(spec)

    assert await port_of(driver, spec) == FIRST_PORT + 1


async def test_without_a_free_port_nothing_is_created(root: Path, spec: Spec) -> None:
    with listener() as taken:
        driver = LocalDriver(root, ports=[taken.getsockname()[1]], pg_bin=PG_BIN)
        with pytest.raises(OutOfPorts, match="wider range"):
            await driver.provision(spec)

    assert await driver.ids() == {}
    assert not (root / spec.id).exists()


async def test_a_stopped_instance_keeps_its_port(root: Path, spec: Spec) -> None:
    driver = local_driver(root, ports=1)
    await driver.provision(spec)
    await driver.stop(spec.id)

    with pytest.raises(OutOfPorts):
        await driver.provision(replace(spec, id=str(uuid4())))

    assert await driver.ids() == {spec.id: spec.name}
    await driver.start(spec.id)
    assert await port_of(driver, spec) == FIRST_PORT
    await driver.remove(spec.id)
    successor = new_spec()
    await driver.provision(successor)
    assert await port_of(driver, successor) == FIRST_PORT


async def test_a_taken_port_of_a_stopped_instance_is_named_in_the_error(driver: LocalDriver, spec: Spec) -> None:
    await driver.provision(spec)
    port = await port_of(driver, spec)
    await driver.stop(spec.id)

    with listener(port), pytest.raises(AddressInUse, match=rf"port {port} of the instance shop .* start the instance"):
        await driver.start(spec.id)

    await driver.start(spec.id)
    assert await port_of(driver, spec) == port


@pytest.mark.exhaustive
async def test_instances_of_several_drivers_run_side_by_side(root: Path) -> None:
    specs = [new_spec(f"shop {number}") for number in range(3)]
    await asyncio.gather(*(local_driver(root).provision(spec) for spec in specs))

    driver = local_driver(root)
    assert len({await port_of(driver, spec) for spec in specs}) == 3
    assert await driver.ids() == {spec.id: spec.name for spec in specs}
