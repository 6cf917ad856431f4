"""The objects of an instance that the driver creates, and those that it leaves unchanged."""

from dataclasses import replace
from typing import Any

import pytest

from interlock.errors import BadSpec, BeingRemoved, DriverError, InstanceAbsent, NotSupported
from interlock.instances.drivers.kubernetes import KubernetesDriver, KubernetesSettings, creation
from interlock.instances.drivers.kubernetes.api import Api
from interlock.instances.drivers.kubernetes.names import ObjectNames
from interlock.instances.drivers.port import Spec
from support.kube_api.real import Http, RealCluster
from support.kube_api.server import FakeCluster
from support.kube_api.watching import seen

GIB = 1024**3
PLURALS = {
    "secrets": "/api/v1",
    "configmaps": "/api/v1",
    "services": "/api/v1",
    "persistentvolumeclaims": "/api/v1",
    "pods": "/api/v1",
    "statefulsets": "/apis/apps/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
}


class Objects:
    """The objects in the namespace, read from the server itself."""

    def __init__(self, http: Http, namespace: str) -> None:
        self.http, self.namespace = http, namespace

    def path(self, plural: str, name: str = "") -> str:
        return f"{PLURALS[plural]}/namespaces/{self.namespace}/{plural}/{name}".rstrip("/")

    def get(self, plural: str, name: str) -> dict[str, Any]:
        status, thing = self.http("GET", self.path(plural, name))
        assert status == 200, thing
        return thing

    def names(self) -> set[str]:
        """The objects, without those that every namespace has."""
        return {
            f"{plural}/{item['metadata']['name']}"
            for plural in PLURALS
            for item in self.http("GET", self.path(plural))[1]["items"]
            if item["metadata"]["name"] != "kube-root-ca.crt"
        }

    def delete(self, plural: str, name: str) -> None:
        status, said = self.http("DELETE", self.path(plural, name))
        assert status in (200, 202), said

    def create(self, plural: str, body: dict[str, Any]) -> dict[str, Any]:
        status, thing = self.http("POST", self.path(plural), body)
        assert status == 201, thing
        return thing


@pytest.fixture
def objects(http: Http, namespace: str) -> Objects:
    return Objects(http, namespace)


async def test_an_instance_consists_of_what_the_page_says(
    driver: KubernetesDriver, objects: Objects, spec: Spec
) -> None:
    spec = replace(spec, dns_name="shop.example.com", tags={"team": "a b"})
    await driver.provision(spec)
    observation = (await seen(driver, spec.id, "running"))[-1]

    base = f"pg-{spec.id}"
    assert objects.names() == {
        f"secrets/{base}",
        f"configmaps/{base}",
        f"services/{base}",
        f"services/{base}-pods",
        f"poddisruptionbudgets/{base}",
        f"statefulsets/{base}",
        f"persistentvolumeclaims/data-{base}-0",
        f"pods/{base}-0",
    }
    for each in objects.names():
        labels = objects.get(*each.split("/"))["metadata"]["labels"]
        assert (
            labels.items() >= {"app.kubernetes.io/managed-by": "interlock", "interlock.dev/instance": spec.id}.items()
        )
    annotations = objects.get("services", base)["metadata"]["annotations"]
    assert annotations["external-dns.alpha.kubernetes.io/hostname"] == "shop.example.com"
    assert observation.version == "18"
    assert observation.endpoint is not None
    assert (observation.endpoint.port, observation.endpoint.user, observation.endpoint.database) == (
        5432,
        "shop",
        "shop",
    )
    assert observation.endpoint.ca is not None
    assert "BEGIN CERTIFICATE" in observation.endpoint.ca


async def test_the_pod_is_not_root_and_has_no_rights(driver: KubernetesDriver, objects: Objects, spec: Spec) -> None:
    await driver.provision(spec)
    await seen(driver, spec.id, "running")

    pod = objects.get("pods", ObjectNames(spec.id).pod)["spec"]
    container = pod["containers"][0]["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["capabilities"] == {"drop": ["ALL"]}
    assert container["allowPrivilegeEscalation"] is False
    assert container["readOnlyRootFilesystem"] is True
    assert pod["automountServiceAccountToken"] is False


async def test_provisioning_again_changes_nothing(driver: KubernetesDriver, objects: Objects, spec: Spec) -> None:
    await driver.provision(spec)
    await seen(driver, spec.id, "running")
    before = {each: objects.get(*each.split("/"))["metadata"] for each in objects.names()}

    await driver.provision(spec)

    for each, metadata in before.items():
        now = objects.get(*each.split("/"))["metadata"]
        assert (now["uid"], now.get("generation")) == (metadata["uid"], metadata.get("generation")), each


async def test_a_deleted_object_is_noticed_and_recreated(
    driver: KubernetesDriver, objects: Objects, spec: Spec
) -> None:
    await driver.provision(spec)
    await seen(driver, spec.id, "running")
    password = await driver.password(spec.id)

    objects.delete("services", f"pg-{spec.id}")
    observation = await driver.observe(spec.id)
    assert (observation.state, observation.detail) == (
        "broken",
        "The instance's Service is gone: provision the instance again.",
    )
    with pytest.raises(InstanceAbsent):
        await driver.resize("no-such-instance", GIB)
    await driver.provision(spec)

    await seen(driver, spec.id, "running")
    assert await driver.password(spec.id) == password


async def test_a_concurrent_creation_keeps_the_first_password(
    driver: KubernetesDriver, settings: KubernetesSettings, spec: Spec
) -> None:
    """The second request checks before the first one creates anything."""
    await driver.provision(spec)
    password = await driver.password(spec.id)

    async with Api(settings) as api:
        await creation.ensure_secret(api, spec, None)

    assert await driver.password(spec.id) == password


async def test_a_version_stays_when_a_newer_one_comes(
    driver: KubernetesDriver, settings: KubernetesSettings, objects: Objects, spec: Spec
) -> None:
    old = KubernetesDriver(replace(settings, versions=("16", "17")))
    await old.provision(spec)
    await driver.provision(spec)

    sts = objects.get("statefulsets", f"pg-{spec.id}")
    assert sts["spec"]["template"]["spec"]["containers"][0]["image"] == "docker.io/library/postgres:17"
    with pytest.raises(BadSpec, match="version 17"):
        await driver.provision(replace(spec, version="18"))


async def test_parameters_that_wait_for_a_restart_are_reported_each_time(
    driver: KubernetesDriver, objects: Objects, spec: Spec
) -> None:
    await driver.provision(replace(spec, parameters={"work_mem": "4MB"}))
    await seen(driver, spec.id, "running")
    pod = objects.get("pods", ObjectNames(spec.id).pod)["metadata"]["uid"]

    for _ in range(2):
        assert await driver.set_parameters(spec.id, {"application_name": "it's"}) == "restart needed"
    assert objects.get("pods", ObjectNames(spec.id).pod)["metadata"]["uid"] == pod
    conf = objects.get("configmaps", f"pg-{spec.id}")["data"]["postgresql.conf"]
    assert "application_name = 'it''s'" in conf
    assert "work_mem" not in conf

    await driver.stop(spec.id)
    await seen(driver, spec.id, "stopped")
    await driver.start(spec.id)
    await seen(driver, spec.id, "running")
    assert await driver.set_parameters(spec.id, {"application_name": "it's"}) == "reloaded"
    assert await driver.set_parameters(spec.id, {}) == "restart needed"


async def test_parameters_of_a_stopped_instance_take_effect_at_its_next_start(
    driver: KubernetesDriver, spec: Spec
) -> None:
    await driver.provision(spec)
    await seen(driver, spec.id, "running")
    await driver.stop(spec.id)
    await seen(driver, spec.id, "stopped")

    assert await driver.set_parameters(spec.id, {"work_mem": "5MB"}) == "reloaded"


@pytest.fixture
def growing(cluster: FakeCluster | RealCluster, http: Http) -> str:
    """A storage class whose volumes can grow."""
    if isinstance(cluster, RealCluster):
        body = {"metadata": {"name": "growing"}, "provisioner": "interlock.dev/test", "allowVolumeExpansion": True}
        http("POST", "/apis/storage.k8s.io/v1/storageclasses", body)
    return "growing"


@pytest.fixture
def fixed(cluster: FakeCluster | RealCluster) -> str:
    """A storage class whose volumes cannot."""
    if isinstance(cluster, FakeCluster):
        cluster.store.expandable = False
    return "fixed"


async def test_a_volume_grows_and_does_not_shrink(
    settings: KubernetesSettings, objects: Objects, spec: Spec, growing: str
) -> None:
    driver = KubernetesDriver(replace(settings, storage_class=growing))
    spec = replace(spec, storage_bytes=GIB)
    await driver.provision(spec)
    await seen(driver, spec.id, "running")

    for _ in range(2):
        await driver.resize(spec.id, 2 * GIB)
    claim = objects.get("persistentvolumeclaims", ObjectNames(spec.id).claim)
    assert claim["spec"]["resources"]["requests"]["storage"] in (str(2 * GIB), "2Gi")

    with pytest.raises(BadSpec, match="can not be less"):
        await driver.resize(spec.id, GIB)
    await driver.provision(replace(spec, storage_bytes=2 * GIB))


async def test_a_volume_that_cannot_grow_is_reported(settings: KubernetesSettings, spec: Spec, fixed: str) -> None:
    driver = KubernetesDriver(replace(settings, storage_class=fixed))
    await driver.provision(spec)
    await seen(driver, spec.id, "running")

    with pytest.raises(NotSupported, match="cannot grow volumes"):
        await driver.resize(spec.id, 100 * GIB)


async def test_absent_is_reported_only_when_nothing_is_left(
    driver: KubernetesDriver, objects: Objects, spec: Spec
) -> None:
    await driver.provision(spec)
    await seen(driver, spec.id, "running")

    await driver.remove(spec.id)

    with pytest.raises((BeingRemoved, InstanceAbsent)):
        await driver.start(spec.id)
    observations = await seen(driver, spec.id, "absent")
    assert "It is being removed, and waits for" in observations[0].detail
    assert objects.names() == set()


async def test_nothing_is_made_while_the_last_of_it_is_still_going(driver: KubernetesDriver, spec: Spec) -> None:
    await driver.provision(spec)
    await seen(driver, spec.id, "running")
    await driver.remove(spec.id)

    with pytest.raises(BeingRemoved, match="still being removed"):
        await driver.provision(spec)

    await seen(driver, spec.id, "absent")


async def test_a_volume_that_was_left_over_is_found_and_removed(
    driver: KubernetesDriver, objects: Objects, spec: Spec
) -> None:
    names = ObjectNames(spec.id)
    claim = {
        "metadata": {"name": names.claim, "labels": names.labels, "annotations": {"interlock.dev/name": "shop"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    objects.create("persistentvolumeclaims", claim)

    assert await driver.ids() == {spec.id: "shop"}
    assert "PersistentVolumeClaim" in (await driver.observe(spec.id)).detail
    await driver.remove(spec.id)

    await seen(driver, spec.id, "absent")
    assert objects.names() == set()


async def test_the_password_of_a_stopped_instance_is_not_changed(driver: KubernetesDriver, spec: Spec) -> None:
    await driver.provision(spec)
    await seen(driver, spec.id, "running")
    password = await driver.password(spec.id)
    await driver.stop(spec.id)
    await seen(driver, spec.id, "stopped")

    with pytest.raises(DriverError, match="start it first"):
        await driver.reset_password(spec.id)

    assert await driver.password(spec.id) == password


@pytest.mark.parametrize("id", ["", "Upper", "a/b", "../secrets", "-a", "a" * 49, "a b"])
async def test_an_id_is_never_a_path(driver: KubernetesDriver, id: str) -> None:  # noqa: A002
    for verb in (driver.observe, driver.start, driver.remove, driver.password):
        with pytest.raises(BadSpec):
            await verb(id)
