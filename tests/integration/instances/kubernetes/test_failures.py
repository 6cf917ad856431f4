"""An instance that does not start reports the reason, in the message of the component that delays it."""

from dataclasses import replace

import pytest

from interlock.instances.drivers.kubernetes import KubernetesDriver
from interlock.instances.drivers.kubernetes.names import ObjectNames
from interlock.instances.drivers.port import Observed, Spec
from support.kube_api.node import Trouble
from support.kube_api.real import Http, RealCluster
from support.kube_api.server import FakeCluster
from support.kube_api.watching import seen

TROUBLES: list[tuple[Trouble, Observed, str]] = [
    ("unschedulable", "starting", "Unschedulable: 0/3 nodes are available: 3 Insufficient memory."),
    ("image", "broken", 'ImagePullBackOff: Back-off pulling image "docker.io/library/postgres:18"'),
    ("crash", "broken", "CrashLoopBackOff: back-off 10s restarting failed container"),
    ("volume", "starting", 'ProvisioningFailed: storageclass.storage.k8s.io "fast" not found'),
    ("balancer", "starting", "SyncLoadBalancerFailed: Error syncing load balancer: no address is left"),
]


@pytest.mark.parametrize(("trouble", "state", "detail"), TROUBLES, ids=[trouble for trouble, _, _ in TROUBLES])
async def test_the_reason_of_a_delay_is_reported_until_it_is_over(
    cluster: FakeCluster | RealCluster,
    driver: KubernetesDriver,
    spec: Spec,
    trouble: Trouble,
    state: Observed,
    detail: str,
) -> None:
    if cluster.node is None:
        pytest.skip("troubles cannot be made on machines that are not ours")
    cluster.node.trouble = trouble
    await driver.provision(spec)

    observation = await driver.observe(spec.id)
    for _ in range(500):
        if observation.detail == detail:
            break
        observation = await driver.observe(spec.id)
    assert (observation.state, observation.detail) == (state, detail)

    cluster.node.trouble = None
    assert (await seen(driver, spec.id, "running"))[-1].detail == ""
    cluster.node.trouble = trouble
    await driver.remove(spec.id)
    await seen(driver, spec.id, "absent")


async def test_an_unready_pod_is_restarted_with_newer_parameters(
    cluster: FakeCluster | RealCluster, driver: KubernetesDriver, http: Http, namespace: str, spec: Spec
) -> None:
    """Kubernetes itself does not replace a pod whose template has changed."""
    if cluster.node is None:
        pytest.skip("troubles cannot be made on machines that are not ours")
    pod = f"/api/v1/namespaces/{namespace}/pods/{ObjectNames(spec.id).pod}"
    cluster.node.trouble = "crash"
    await driver.provision(replace(spec, parameters={"shared_preload_libraries": "no_such"}))
    await seen(driver, spec.id, "broken")
    first = http("GET", pod)[1]["metadata"]["uid"]
    await driver.start(spec.id)
    assert http("GET", pod)[1]["metadata"]["uid"] == first

    assert await driver.set_parameters(spec.id, {}) == "restart needed"
    await driver.start(spec.id)
    cluster.node.trouble = None

    await seen(driver, spec.id, "running")
    assert http("GET", pod)[1]["metadata"]["uid"] != first
    assert await driver.set_parameters(spec.id, {}) == "reloaded"
