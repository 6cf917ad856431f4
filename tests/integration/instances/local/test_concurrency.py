"""Concurrent operations on one instance run one after the other."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from interlock.embedded.locks import exclusive
from interlock.errors import InstanceAbsent
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Spec
from support.local_instances import Shop
from support.waiting import eventually

VERBS: dict[str, Callable[[LocalDriver, Spec], Awaitable[object]]] = {
    "provision": lambda driver, spec: driver.provision(spec),
    "remove": lambda driver, spec: driver.remove(spec.id),
    "start": lambda driver, spec: driver.start(spec.id),
    "stop": lambda driver, spec: driver.stop(spec.id),
    "password": lambda driver, spec: driver.password(spec.id),
    "reset_password": lambda driver, spec: driver.reset_password(spec.id),
    "set_parameters": lambda driver, spec: driver.set_parameters(spec.id, {}),
}


def has_waiter(lock: Path) -> bool:
    """Return True if /proc/locks shows a waiting lock, which has an arrow."""
    inode = f":{lock.stat().st_ino} "
    return any("-> FLOCK" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


@pytest.mark.parametrize("verb", VERBS)
async def test_an_operation_waits_for_the_running_one(driver: LocalDriver, root: Path, spec: Spec, verb: str) -> None:
    (root / spec.id).mkdir(parents=True)
    lock = root / spec.id / "lock"

    with exclusive(lock, lambda: None):
        waiting = asyncio.ensure_future(VERBS[verb](driver, spec))
        await asyncio.to_thread(eventually, lambda: has_waiter(lock))
        assert not waiting.done()

    with suppress(InstanceAbsent):  # there is nothing to be started or asked
        await waiting
    assert (await driver.observe(spec.id)).state == {"provision": "running", "remove": "absent"}.get(verb, "broken")


async def test_observe_waits_for_no_operation(driver: LocalDriver, root: Path, spec: Spec) -> None:
    (root / spec.id).mkdir(parents=True)

    with exclusive(root / spec.id / "lock", lambda: None):
        many = [asyncio.ensure_future(driver.remove(spec.id)) for _ in range(40)]
        await asyncio.to_thread(eventually, lambda: has_waiter(root / spec.id / "lock"))
        assert (await driver.observe(spec.id)).state == "starting"
    await asyncio.gather(*many)


async def test_a_password_query_waits_for_no_operation(shop: Shop, spec: Spec) -> None:
    """Health checks go on under load, and an instance without a password would count as unhealthy."""
    lock = shop.root / spec.id / "lock"
    lock.parent.mkdir()

    with exclusive(lock, lambda: None), exclusive(shop.directory / "lock", lambda: None):
        many = [asyncio.ensure_future(shop.driver.remove(spec.id)) for _ in range(40)]
        await asyncio.to_thread(eventually, lambda: has_waiter(lock))
        password = await asyncio.wait_for(shop.driver.password(shop.spec.id), 10)
    await asyncio.gather(*many)
    assert await shop.ask("SELECT 1", password) == 1


async def test_observe_waits_for_no_other_operation(driver: LocalDriver, root: Path, spec: Spec) -> None:
    (root / spec.id).mkdir(parents=True)

    with exclusive(root / spec.id / "lock", lambda: None):
        assert (await driver.observe(spec.id)).state == "starting"
        assert await driver.ids() == {spec.id: ""}
