"""An instance that does not come up says why, in the words of who holds it up."""

import pytest

from interlock.instances.drivers.kubernetes import KubernetesDriver
from interlock.instances.drivers.port import Observed, Spec
from support.kube_api.node import Trouble
from support.kube_api.real import RealCluster
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
async def test_what_holds_an_instance_up_is_told_and_then_forgotten(
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

    sight = await driver.look(spec.id)
    for _ in range(500):
        if sight.detail == detail:
            break
        sight = await driver.look(spec.id)
    assert (sight.state, sight.detail) == (state, detail)

    cluster.node.trouble = None
    assert (await seen(driver, spec.id, "running"))[-1].detail == ""
    cluster.node.trouble = trouble
    await driver.remove(spec.id)
    await seen(driver, spec.id, "absent")
