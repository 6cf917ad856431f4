"""Operations through the pod itself: its log, and a new password. They need machines, or the small server."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from interlock.errors import DriverError, DriverUnreachable, InstanceAbsent
from interlock.instances.drivers.kubernetes import KubernetesDriver, KubernetesSettings
from interlock.instances.drivers.kubernetes.api import Api
from interlock.instances.drivers.kubernetes.names import ObjectNames
from interlock.instances.drivers.port import Spec
from support.kube_api import controllers
from support.kube_api.server import FakeCluster
from support.kube_api.store import Stored
from support.kube_api.watching import seen
from support.scram import verifies


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
    lines = fake_cluster.logs[ObjectNames(running.id).pod] = ["first", "second", "third"]
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
    fake_cluster.logs[ObjectNames(running.id).pod] = ["first"]
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
        await driver.observe(spec.id)

    with pytest.raises(DriverError, match=r"is waiting to start.*: wait until the pod runs"):
        [line async for line in driver.logs(spec.id, follow=follow)]


async def test_a_volume_that_is_made_while_its_instance_is_removed_is_removed_too(
    fake_cluster: FakeCluster, driver: KubernetesDriver, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The StatefulSet creates the volume just before its own deletion, and before it is recorded as the owner."""
    store, delete = fake_cluster.store, fake_cluster.store.delete

    def late(thing: Stored, **how: Any) -> None:
        if thing.kind.name == "StatefulSet":
            controllers.step(store)
            for claim in store.all("persistentvolumeclaims"):
                del claim.body["metadata"]["ownerReferences"]
        delete(thing, **how)

    monkeypatch.setattr(fake_cluster, "step", lambda: None)
    await driver.provision(spec)
    monkeypatch.setattr(store, "delete", late)
    await driver.remove(spec.id)
    monkeypatch.undo()

    await seen(driver, spec.id, "absent")


async def test_a_stopped_instance_has_no_log(driver: KubernetesDriver, running: Spec) -> None:
    await driver.stop(running.id)
    await seen(driver, running.id, "stopped")
    with pytest.raises(InstanceAbsent, match="start it first"):
        [line async for line in driver.logs(running.id)]


async def test_the_server_receives_the_verifier_and_not_the_password(
    fake_cluster: FakeCluster, driver: KubernetesDriver, running: Spec
) -> None:
    old = await driver.password(running.id)
    await driver.reset_password(running.id)

    new = await driver.password(running.id)
    [(pod, command, statement)] = fake_cluster.commands
    assert new != old
    assert pod == ObjectNames(running.id).pod
    assert command[0] == "psql"
    assert '\nALTER ROLE "shop" PASSWORD \'SCRAM-SHA-256$' in statement
    assert new not in statement


async def test_a_password_that_the_server_did_not_take_can_be_set_again(
    fake_cluster: FakeCluster, driver: KubernetesDriver, running: Spec
) -> None:
    old = await driver.password(running.id)
    fake_cluster.exit_code = 2
    with pytest.raises(DriverError, match=r"did not accept the new password.*it did not work"):
        await driver.reset_password(running.id)
    assert await driver.password(running.id) == old

    fake_cluster.exit_code = 0
    await driver.reset_password(running.id)
    assert len(fake_cluster.commands) == 2
    assert await driver.password(running.id) != old


async def test_a_deleted_password_is_noticed_and_reset(
    fake_cluster: FakeCluster, driver: KubernetesDriver, running: Spec
) -> None:
    secret = fake_cluster.store.find("secrets", "default", ObjectNames(running.id).base)
    assert secret is not None
    del secret.body["data"]
    with pytest.raises(DriverError, match="has no password in it: reset the password"):
        await driver.password(running.id)

    await driver.reset_password(running.id)
    assert await driver.password(running.id)


async def test_a_password_that_could_not_be_set_leaves_the_old_one(
    fake_cluster: FakeCluster, driver: KubernetesDriver, running: Spec
) -> None:
    old = await driver.password(running.id)
    fake_cluster.refuse_commands = True
    with pytest.raises(DriverUnreachable, match=r"the role allows pods/exec"):
        await driver.reset_password(running.id)
    assert await driver.password(running.id) == old


async def test_a_process_that_dies_while_it_changes_a_password_is_caught_up_with(
    fake_cluster: FakeCluster, driver: KubernetesDriver, running: Spec
) -> None:
    """The process dies after it set the password in the server: the shown password fails until a repetition."""

    class Dead(Exception):
        pass

    class Dying(KubernetesDriver):
        def _api(self) -> Api:
            api = super()._api()
            run = api.run

            async def run_and_die(*arguments: Any, **given: Any) -> Any:
                await run(*arguments, **given)
                raise Dead

            api.run = run_and_die  # type: ignore[method-assign]
            return api

    with pytest.raises(Dead):
        await Dying(driver._settings).reset_password(running.id)
    await driver.reset_password(running.id)

    secret = fake_cluster.store.find("secrets", "default", ObjectNames(running.id).base)
    assert secret is not None
    assert "next-password" not in secret.body["data"]
    told = [statement for _, _, statement in fake_cluster.commands]
    password = await driver.password(running.id)
    assert [verifies(each, password) for each in told] == [True, True]
