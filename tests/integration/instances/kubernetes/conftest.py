"""Each test runs on the small API server, and on a real one where there is one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from interlock.instances.drivers.kubernetes import KubernetesDriver, KubernetesSettings
from interlock.instances.drivers.port import Spec
from support.kube_api.real import Http, RealCluster, at_hand, running_real
from support.kube_api.role import documented_role
from support.kube_api.server import FakeCluster, running_fake


@pytest.fixture(scope="session")
def role() -> dict[str, Any]:
    return documented_role()


@pytest.fixture(scope="session")
def real_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with running_real(tmp_path_factory.mktemp("kubernetes")) as cluster:
        yield cluster


@pytest.fixture
def fake_cluster() -> Iterator[FakeCluster]:
    with running_fake() as cluster:
        yield cluster


@pytest.fixture(params=["small", *(["real"] if at_hand() else [])])
def cluster(request: pytest.FixtureRequest) -> FakeCluster | RealCluster:
    found: FakeCluster | RealCluster = request.getfixturevalue(
        "real_cluster" if request.param == "real" else "fake_cluster"
    )
    if found.node is not None:
        found.node.trouble = None
    return found


@pytest.fixture
def namespace(cluster: FakeCluster | RealCluster, role: dict[str, Any]) -> str:
    return cluster.new_namespace(role)


@pytest.fixture
def kubeconfig(cluster: FakeCluster | RealCluster, namespace: str, tmp_path: Path) -> Path:
    return cluster.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)


@pytest.fixture
def http(cluster: FakeCluster | RealCluster, kubeconfig: Path) -> Iterator[Http]:
    """A client with all permissions."""
    http = Http(cluster.admin if isinstance(cluster, RealCluster) else kubeconfig)
    yield http
    http.close()


@pytest.fixture
def settings(kubeconfig: Path, namespace: str) -> KubernetesSettings:
    return KubernetesSettings(kubeconfig=str(kubeconfig), namespace=namespace)


@pytest.fixture
def driver(settings: KubernetesSettings) -> KubernetesDriver:
    return KubernetesDriver(settings)


@pytest.fixture
def spec() -> Spec:
    return Spec(id=str(uuid4()), name="shop")
