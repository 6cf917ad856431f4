"""What goes through the pod itself: its log, and a new password. Machines are needed for that, or the small server."""

import asyncio
from pathlib import Path

import pytest

from interlock.errors import BadSpec, DriverError, InstanceAbsent
from interlock.instances.drivers.kubernetes import KubernetesDriver, KubernetesSettings
from interlock.instances.drivers.kubernetes.names import Names
from interlock.instances.drivers.port import Spec
from support.kube_api.server import FakeCluster
from support.kube_api.watching import seen


@pytest.fixture
def driver(fake_cluster: FakeCluster, tmp_path: Path) -> KubernetesDriver:
    return KubernetesDriver(KubernetesSettings(kubeconfig=str(fake_cluster.kubeconfig(tmp_path / "kubeconfig"))))


@pytest.fixture
async def running(driver: KubernetesDriver, spec: Spec) -> Spec:
    await driver.provision(spec)
    await seen(driver, spec.id, "running")
    return spec


async def test_a_log_is_followed_until_its_pod_ends(
    fake_cluster: FakeCluster, driver: KubernetesDriver, running: Spec
) -> None:
    lines = fake_cluster.logs[Names(running.id).pod] = ["first", "second", "third"]
    followed = driver.logs(running.id, lines=2, follow=True)
    assert [await anext(followed), await anext(followed)] == ["second", "third"]

    coming = asyncio.ensure_future(anext(followed))
    lines.append("fourth")
    assert await coming == "fourth"

    await driver.stop(running.id)
    await seen(driver, running.id, "stopped")
    assert [line async for line in followed] == []


async def test_a_log_may_be_left_at_any_time(
    fake_cluster: FakeCluster, driver: KubernetesDriver, running: Spec
) -> None:
    fake_cluster.logs[Names(running.id).pod] = ["first"]
    followed = driver.logs(running.id, follow=True)
    assert await anext(followed) == "first"
    await followed.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("follow", [False, True])
async def test_a_container_that_has_not_started_has_no_log(
    fake_cluster: FakeCluster, driver: KubernetesDriver, spec: Spec, follow: bool
) -> None:
    fake_cluster.node.trouble = "unschedulable"
    await driver.provision(spec)
    while not fake_cluster.store.all("pods"):
        await driver.look(spec.id)

    with pytest.raises(BadSpec, match="is waiting to start"):
        [line async for line in driver.logs(spec.id, follow=follow)]


async def test_one_that_is_stopped_has_no_log(driver: KubernetesDriver, running: Spec) -> None:
    await driver.stop(running.id)
    await seen(driver, running.id, "stopped")
    with pytest.raises(InstanceAbsent, match="start it first"):
        [line async for line in driver.logs(running.id)]


async def test_the_server_is_told_what_the_secret_holds_and_not_the_password(
    fake_cluster: FakeCluster, driver: KubernetesDriver, running: Spec
) -> None:
    old = await driver.password(running.id)
    await driver.reset_password(running.id)

    new = await driver.password(running.id)
    [(pod, command, statement)] = fake_cluster.commands
    assert new != old
    assert pod == Names(running.id).pod
    assert command[0] == "psql"
    assert statement.startswith('ALTER ROLE "shop" PASSWORD \'SCRAM-SHA-256$')
    assert new not in statement


async def test_a_password_that_the_server_did_not_take_can_be_set_again(
    fake_cluster: FakeCluster, driver: KubernetesDriver, running: Spec
) -> None:
    fake_cluster.exit_code = 2
    with pytest.raises(DriverError, match=r"did not take the new password.*it did not work"):
        await driver.reset_password(running.id)

    fake_cluster.exit_code = 0
    await driver.reset_password(running.id)
    assert len(fake_cluster.commands) == 2
