"""Foreign objects are refused by name, and left unchanged."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from interlock.errors import ForeignResource
from interlock.instances.drivers.kubernetes import KubernetesDriver, KubernetesSettings, objects
from interlock.instances.drivers.kubernetes.api import Api
from interlock.instances.drivers.kubernetes.names import INSTANCE, MANAGED_BY, ObjectNames
from interlock.instances.drivers.port import Spec
from interlock.tls.certificate import check_pair
from support.kube_api.real import Http
from support.kube_api.watching import seen
from support.scram import verifies

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "x", "image": "x:1"}]}}
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Secret": ("/api/v1", "secrets", {"data": {"password": "b2xk"}}),
    "ConfigMap": ("/api/v1", "configmaps", {"data": {"k": "v"}}),
    "Service": (
        "/api/v1",
        "services",
        {"spec": {"ports": [{"name": "postgresql", "port": 5432}], "selector": {"app": "x"}}},
    ),
    "PodDisruptionBudget": (
        "/apis/policy/v1",
        "poddisruptionbudgets",
        {"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "x"}}}},
    ),
    "StatefulSet": (
        "/apis/apps/v1",
        "statefulsets",
        {"spec": {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "serviceName": "x", "template": TEMPLATE}},
    ),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims", {"spec": CLAIM}),
}


class Foreign:
    """A foreign object under a name that the instance would use."""

    def __init__(self, http: Http, namespace: str, kind: str, spec: Spec, **labels: str) -> None:
        group, plural, body = KINDS[kind]
        name = ObjectNames(spec.id).claim if kind == "PersistentVolumeClaim" else ObjectNames(spec.id).base
        self._http, self._path = http, f"{group}/namespaces/{namespace}/{plural}"
        status, said = http("POST", self._path, {**body, "metadata": {"name": name, "labels": labels}})
        assert status == 201, said
        self._path += f"/{name}"
        self.made = self.now()

    def now(self) -> dict[str, Any]:
        """The object without the fields that controllers write."""
        thing = self._http("GET", self._path)[1]
        return {
            "uid": thing["metadata"]["uid"],
            "labels": thing["metadata"].get("labels"),
            "data": thing.get("data"),
            "selector": thing.get("spec", {}).get("selector"),
        }


@pytest.mark.parametrize("kind", KINDS)
async def test_an_object_without_our_labels_is_refused(
    driver: KubernetesDriver, http: Http, namespace: str, spec: Spec, kind: str
) -> None:
    foreign = Foreign(http, namespace, kind, spec)

    for verb in (driver.check, driver.provision):
        with pytest.raises(ForeignResource, match=f"{kind} .*{spec.id}.* was not created by Interlock"):
            await verb(spec)

    assert await driver.ids() == {}
    assert (await driver.observe(spec.id)).state == "absent"
    await driver.remove(spec.id)
    assert foreign.now() == foreign.made


@pytest.mark.parametrize("kind", KINDS)
async def test_objects_of_another_instance_are_never_taken_over(
    settings: KubernetesSettings, http: Http, namespace: str, spec: Spec, kind: str
) -> None:
    foreign = Foreign(http, namespace, kind, spec, **{INSTANCE: "another", MANAGED_BY: "interlock"})

    for adopt in (False, True):
        with pytest.raises(ForeignResource, match="belongs to another instance"):
            await KubernetesDriver(replace(settings, adopt=adopt)).provision(spec)

    assert foreign.now() == foreign.made


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap", "Service", "PodDisruptionBudget", "PersistentVolumeClaim"])
async def test_unowned_objects_are_adopted_if_that_is_allowed(
    settings: KubernetesSettings, http: Http, namespace: str, spec: Spec, kind: str
) -> None:
    foreign = Foreign(http, namespace, kind, spec)
    driver = KubernetesDriver(replace(settings, adopt=True))

    await driver.provision(spec)

    await seen(driver, spec.id, "running")
    assert foreign.now()["uid"] == foreign.made["uid"]
    assert foreign.now()["labels"][INSTANCE] == spec.id
    if kind == "Secret":
        assert await driver.password(spec.id) == "old"
        owner = base64.b64decode(foreign.now()["data"]["owner.sql"]).decode()
        assert verifies(owner, "old")
    await driver.remove(spec.id)
    await seen(driver, spec.id, "absent")


async def test_half_a_pair_of_certificate_and_key_is_replaced_by_a_whole_one(
    settings: KubernetesSettings, http: Http, namespace: str, spec: Spec
) -> None:
    path, name = f"/api/v1/namespaces/{namespace}/secrets", ObjectNames(spec.id).base
    http("POST", path, {"metadata": {"name": name}, "data": {"tls.crt": base64.b64encode(b"of another key").decode()}})

    await KubernetesDriver(replace(settings, adopt=True)).provision(spec)

    data = http("GET", f"{path}/{name}")[1]["data"]
    check_pair(base64.b64decode(data["tls.crt"]), base64.b64decode(data["tls.key"]))


@pytest.mark.parametrize("kind", ["Service", "PodDisruptionBudget", "StatefulSet"])
async def test_an_object_created_concurrently_by_another_client_stays(
    settings: KubernetesSettings, http: Http, namespace: str, spec: Spec, kind: str
) -> None:
    """The object appears between the driver's check and its apply."""
    foreign = Foreign(http, namespace, kind, spec)
    ours = {
        "Service": objects.service(spec, settings),
        "PodDisruptionBudget": objects.budget(spec),
        "StatefulSet": objects.stateful_set(spec, settings, version="17", template_bytes=1, configured=""),
    }[kind]

    async with Api(settings) as api:
        with pytest.raises(ForeignResource, match=r"conflicts? with"):
            await api.ensure(ours, None)

    assert foreign.now() == foreign.made


async def test_a_secret_created_concurrently_by_another_client_stays(
    settings: KubernetesSettings, http: Http, namespace: str, spec: Spec
) -> None:
    foreign = Foreign(http, namespace, "Secret", spec)

    async with Api(settings) as api:
        assert await api.create(objects.secret(spec, {"password": "bmV3"})) is None

    assert foreign.now() == foreign.made
