"""Errors of the API server, and silence, become errors of Interlock."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.errors import (
    BadSpec,
    BeingRemoved,
    ConfigurationError,
    DriverUnreachable,
    OutOfSpace,
)
from interlock.instances.drivers.kubernetes import KubernetesDriver, KubernetesSettings
from interlock.instances.drivers.kubernetes.api import Api
from interlock.instances.drivers.port import Spec
from support.kube_api import statuses
from support.kube_api.real import RealCluster
from support.kube_api.server import FakeCluster
from support.kube_api.watching import seen
from support.ports import closed_port


async def test_a_server_that_is_not_there_is_unreachable(fake_cluster: FakeCluster, tmp_path: Path, spec: Spec) -> None:
    with closed_port() as port:
        fake_cluster.url = f"http://127.0.0.1:{port}"
        driver = KubernetesDriver(KubernetesSettings(kubeconfig=str(fake_cluster.kubeconfig(tmp_path / "config"))))

        for verb in (
            driver.check(spec),
            driver.provision(spec),
            driver.observe(spec.id),
            driver.remove(spec.id),
            driver.ids(),
        ):
            with pytest.raises(DriverUnreachable, match=f"{fake_cluster.url} does not answer"):
                await verb


async def test_a_server_that_says_nothing_is_unreachable(fake_cluster: FakeCluster, tmp_path: Path, spec: Spec) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fake_cluster.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        kubeconfig = str(fake_cluster.kubeconfig(tmp_path / "config"))
        driver = KubernetesDriver(KubernetesSettings(kubeconfig=kubeconfig, timeout=0.2))
        # A machine that stands still just then does not come as far as to read.
        said = rf"{fake_cluster.url} does not answer \((Connect|Write|Read|Pool)Timeout\): check the address"
        with pytest.raises(DriverUnreachable, match=said):
            await driver.observe(spec.id)


async def test_an_unknown_user_is_reported(
    cluster: FakeCluster | RealCluster, namespace: str, tmp_path: Path, spec: Spec
) -> None:
    kubeconfig = cluster.kubeconfig(tmp_path / "guess", token="guess", namespace=namespace)
    if "guess" not in kubeconfig.read_text():
        pytest.skip("a cluster that is not ours knows us")
    with pytest.raises(DriverUnreachable, match="Unauthorized"):
        await KubernetesDriver(KubernetesSettings(kubeconfig=str(kubeconfig))).observe(spec.id)


async def test_missing_permissions_are_reported(real_role: KubernetesSettings, spec: Spec) -> None:
    with pytest.raises(DriverUnreachable, match=r"denies access to .* is forbidden: User .* cannot"):
        await KubernetesDriver(replace(real_role, namespace="kube-system")).observe(spec.id)


@pytest.fixture
def real_role(cluster: FakeCluster | RealCluster, settings: KubernetesSettings) -> KubernetesSettings:
    if isinstance(cluster, FakeCluster):
        why = 'User "interlock" cannot list resource "pods" in API group "" in the namespace "kube-system"'
        cluster.refusing = statuses.forbidden("pods", "", why)
    elif cluster.everything_is_allowed:
        pytest.skip("a cluster that is not ours lets us do everything")
    return settings


async def test_a_namespace_that_is_not_there_is_named(
    settings: KubernetesSettings, spec: Spec, cluster: FakeCluster | RealCluster
) -> None:
    driver = KubernetesDriver(replace(settings, namespace="nowhere"))
    # Who may do things in some namespaces only is not told which others there are.
    with pytest.raises(ConfigurationError if cluster.everything_is_allowed else DriverUnreachable, match="nowhere"):
        await driver.provision(spec)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (408, "Timeout"),
        (410, "Expired"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (504, "Timeout"),
    ],
)
async def test_a_server_that_is_not_ready_is_unreachable(
    fake_cluster: FakeCluster, tmp_path: Path, spec: Spec, code: int, reason: str
) -> None:
    fake_cluster.refusing = statuses.Refused(code, reason, "come back later")
    driver = KubernetesDriver(KubernetesSettings(kubeconfig=str(fake_cluster.kubeconfig(tmp_path / "config"))))
    with pytest.raises(DriverUnreachable, match=r"is not ready \(come back later\): try again"):
        await driver.provision(spec)


async def test_a_quota_that_others_use_at_the_same_time_is_worth_another_try(
    fake_cluster: FakeCluster, tmp_path: Path, spec: Spec
) -> None:
    driver = KubernetesDriver(KubernetesSettings(kubeconfig=str(fake_cluster.kubeconfig(tmp_path / "config"))))
    fake_cluster.store.contended = True
    with pytest.raises(DriverUnreachable, match=r"resourcequotas .*: try again"):
        await driver.provision(spec)

    fake_cluster.store.contended = False
    await driver.provision(spec)
    await seen(driver, spec.id, "running")


async def test_a_pod_that_goes_while_its_log_is_asked_for_is_worth_another_try(settings: KubernetesSettings) -> None:
    async with Api(settings) as api:
        with pytest.raises(BeingRemoved, match=r"pods \"gone\" not found.*: try again"):
            [line async for line in api.log("gone", "postgres", lines=1, follow=False)]


async def test_a_quota_that_is_used_up_is_out_of_space(fake_cluster: FakeCluster, tmp_path: Path, spec: Spec) -> None:
    driver = KubernetesDriver(KubernetesSettings(kubeconfig=str(fake_cluster.kubeconfig(tmp_path / "config"))))
    fake_cluster.store.quota = {"services"}
    with pytest.raises(OutOfSpace, match="exceeded quota: small"):
        await driver.provision(spec)

    assert await driver.ids() == {spec.id: spec.name}
    await driver.remove(spec.id)
    await seen(driver, spec.id, "absent")


async def test_an_object_replaced_meanwhile_is_not_changed(
    settings: KubernetesSettings, driver: KubernetesDriver, spec: Spec
) -> None:
    from lightkube.resources.core_v1 import ConfigMap

    await driver.provision(spec)
    async with Api(settings) as api:
        there = await api.find(ConfigMap, f"pg-{spec.id}")
        assert there is not None
        there.metadata.uid = "00000000-0000-0000-0000-000000000000"
        with pytest.raises(BeingRemoved, match="try again"):
            await api.change(there, {"data": {"postgresql.conf": ""}})


async def test_a_refusal_by_kubernetes_quotes_its_message(settings: KubernetesSettings, spec: Spec) -> None:
    driver = KubernetesDriver(replace(settings, service_annotations={"no spaces": "x"}))
    with pytest.raises(BadSpec, match="no spaces"):
        await driver.provision(spec)


WRONG_TYPE = '{"current-context": "a", "clusters": [{"name": "a", "cluster": {"server": 5}}], "contexts": []}'


@pytest.mark.parametrize("text", [None, "{}", '{"clusters": [], "contexts": []}', "- nothing", "{", WRONG_TYPE])
async def test_a_kubeconfig_that_cannot_be_used_is_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigurationError, match="The kubeconfig cannot be used"):
        await KubernetesDriver(KubernetesSettings(kubeconfig=str(path))).ids()


@pytest.mark.parametrize("wrong", [{"image": "postgres:17"}, {"versions": ()}, {"storage_bytes": 0}, {"timeout": 0}])
def test_settings_that_cannot_work_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError):
        KubernetesSettings(**wrong)  # type: ignore[arg-type]
