"""Instances on Kubernetes: on the tests' small API server, and on a real one if there is one."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from conformance.drivers.stage import Kind, Stage, Verb
from interlock.instances.drivers.kubernetes import KubernetesDriver, KubernetesSettings
from interlock.instances.drivers.kubernetes.api import Api
from interlock.instances.drivers.port import Endpoint, Spec
from support.kube_api.real import Http, RealCluster
from support.kube_api.role import documented_role
from support.kube_api.server import FakeCluster, running_fake

PLACES = {
    "/api/v1": ("secrets", "configmaps", "services", "persistentvolumeclaims", "pods"),
    "/apis/apps/v1": ("statefulsets",),
    "/apis/policy/v1": ("poddisruptionbudgets",),
}


class Died(Exception):
    """Raised where a process would die."""


class KubernetesStage:
    def __init__(
        self, cluster: FakeCluster | RealCluster, directory: Path, kind: type[KubernetesDriver] = KubernetesDriver
    ) -> None:
        self._kind = kind
        self._namespace = cluster.new_namespace(documented_role())
        kubeconfig = cluster.kubeconfig(directory / "kubeconfig", namespace=self._namespace)
        self._settings = KubernetesSettings(kubeconfig=str(kubeconfig), namespace=self._namespace)
        self.http = Http(cluster.admin if isinstance(cluster, RealCluster) else kubeconfig)

    def driver(self) -> KubernetesDriver:
        return self._kind(self._settings)

    async def crash(self, verb: Verb, spec: Spec, after: int) -> bool:
        """A step is a change that the server has made. The state of the process is lost with it."""
        driver = DyingDriver(self._settings, after)
        try:
            await (driver.provision(spec) if verb == "provision" else driver.remove(spec.id))
        except Died:
            return True
        return False

    async def put_foreign(self, spec: Spec) -> Callable[[], bool]:
        place = f"/api/v1/namespaces/{self._namespace}/services"
        made = {"metadata": {"name": f"pg-{spec.id}"}, "spec": {"ports": [{"port": 80}], "selector": {"app": "theirs"}}}
        _, theirs = self.http("POST", place, made)
        uid = theirs["metadata"]["uid"]

        def is_intact() -> bool:
            _, now = self.http("GET", f"{place}/pg-{spec.id}")
            return bool(now["metadata"].get("uid") == uid and now["spec"]["selector"] == {"app": "theirs"})

        return is_intact

    async def leftovers(self, id: str) -> list[str]:  # noqa: A002
        found = []
        for group, plurals in PLACES.items():
            for plural in plurals:
                _, listed = self.http("GET", f"{group}/namespaces/{self._namespace}/{plural}")
                names = [item["metadata"]["name"] for item in listed["items"]]
                found += [f"{plural}/{name}" for name in names if id in name]
        return found

    async def lets_in(self, endpoint: Endpoint, password: str) -> bool | None:
        return None


class DyingDriver(KubernetesDriver):
    def __init__(self, settings: KubernetesSettings, after: int) -> None:
        super().__init__(settings)
        self._left = after

    def _api(self) -> Api:
        api = super()._api()
        api._client._client._client.event_hooks["response"].append(self._count)
        return api

    async def _count(self, response: Any) -> None:
        if response.request.method in ("POST", "PATCH", "DELETE"):
            self._left -= 1
            if self._left == 0:
                raise Died


@contextmanager
def small_stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with running_fake() as cluster:
        yield from _stage(cluster, request)


@contextmanager
def real_stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    cluster: RealCluster = request.getfixturevalue("real_cluster")
    kind = KubernetesDriver if cluster.node is None else WithoutMachines
    yield from _stage(cluster, request, kind)


class WithoutMachines(KubernetesDriver):
    """A real server, and pods in name only."""

    async def logs(self, id: str, *, lines: int = 100, follow: bool = False) -> AsyncIterator[str]:  # noqa: A002
        if (await self.observe(id)).state == "running":
            pytest.skip("no machine has a log here")
        async for line in super().logs(id, lines=lines, follow=follow):
            yield line

    async def reset_password(self, id: str) -> None:  # noqa: A002
        if (await self.observe(id)).state == "running":
            pytest.skip("no machine runs commands here")
        await super().reset_password(id)


def _stage(
    cluster: FakeCluster | RealCluster, request: pytest.FixtureRequest, kind: type[KubernetesDriver] = KubernetesDriver
) -> Iterator[Stage]:
    stage = KubernetesStage(cluster, request.getfixturevalue("tmp_path"), kind)
    try:
        yield stage
    finally:
        stage.http.close()


_STEPS: Mapping[Verb, int] = {"provision": 6, "remove": 8, "use_certificate": 0}
KUBERNETES = Kind(small_stage, steps=_STEPS)
REAL_KUBERNETES = Kind(real_stage, steps=_STEPS)
