"""The small API server does what the real one does. Where a real one is at hand, the same tests run on it."""

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from interlock.instances.drivers.kubernetes import KubernetesSettings, objects
from interlock.instances.drivers.port import Spec
from support.kube_api.real import Http, RealCluster, at_hand
from support.kube_api.server import FakeCluster

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


class Api:
    """The objects of one namespace."""

    GROUPS: ClassVar = {"statefulsets": "apis/apps", "poddisruptionbudgets": "apis/policy"}

    def __init__(self, http: Http, namespace: str) -> None:
        self._http, self.namespace = http, namespace

    def path(self, plural: str, name: str = "") -> str:
        base = f"/{self.GROUPS.get(plural, 'api')}/v1/namespaces/{self.namespace}/{plural}"
        return f"{base}/{name}" if name else base

    def get(self, plural: str, name: str) -> tuple[int, dict[str, Any]]:
        return self._http("GET", self.path(plural, name))

    def list(self, plural: str, query: str) -> set[str]:
        status, found = self._http("GET", f"{self.path(plural)}?{query}")
        assert status == 200, found
        return {item["metadata"]["name"] for item in found["items"]}

    def create(self, plural: str, body: dict[str, Any], query: str = "") -> tuple[int, dict[str, Any]]:
        return self._http("POST", f"{self.path(plural)}?{query}", body)

    def apply(
        self, plural: str, body: dict[str, Any], manager: str, *, force: bool = False
    ) -> tuple[int, dict[str, Any]]:
        query = f"fieldManager={manager}" + ("&force=true" if force else "")
        return self._http("PATCH", f"{self.path(plural, body['metadata']['name'])}?{query}", body, kind=APPLY)

    def merge(self, plural: str, name: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return self._http("PATCH", f"{self.path(plural, name)}?fieldManager=patcher", body, kind=MERGE)

    def delete(self, plural: str, name: str, query: str = "", body: Any = None) -> tuple[int, dict[str, Any]]:
        return self._http("DELETE", f"{self.path(plural, name)}?{query}", body)


@pytest.fixture
def api(http: Http, namespace: str) -> Api:
    return Api(http, namespace)


def config_map(name: str = "a", data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return {**body, "data": data} if data is not None else body


def service(*ports: int, name: str = "a", **spec: Any) -> dict[str, Any]:
    listed = [{"name": f"p{port}", "port": port, "protocol": "TCP"} for port in ports]
    spec = {"ports": listed, "selector": {"app": "a"}, **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def stateful_set(name: str = "a", **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    container = {
        "name": "main",
        "image": "image:1",
        "args": ["x"],
        "volumeMounts": [{"name": "data", "mountPath": "/d"}],
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    body = {
        "serviceName": name,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        "volumeClaimTemplates": [claim],
        **spec,
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": body}


def fields_of(thing: dict[str, Any], manager: str, operation: str = "Apply") -> Any:
    managed = thing["metadata"].get("managedFields", [])
    found = [one for one in managed if (one["manager"], one["operation"]) == (manager, operation)]
    return found[0]["fieldsV1"] if found else None


def refusal(answer: tuple[int, dict[str, Any]]) -> tuple[int, str, str]:
    status, said = answer
    assert said["kind"] == "Status", said
    assert said["code"] == status
    return status, said["reason"], said["message"]


def test_a_created_object_has_a_uid_and_a_version(api: Api) -> None:
    status, made = api.create("configmaps", config_map(data={"k": "v"}))
    assert status == 201
    assert made["metadata"]["uid"]
    assert made["metadata"]["resourceVersion"]
    assert made["metadata"]["creationTimestamp"]
    assert made["metadata"]["namespace"] == api.namespace
    assert api.get("configmaps", "a")[1]["data"] == {"k": "v"}


def test_an_existing_object_cannot_be_created(api: Api) -> None:
    api.create("configmaps", config_map())
    assert refusal(api.create("configmaps", config_map())) == (409, "AlreadyExists", 'configmaps "a" already exists')
    api.create("statefulsets", stateful_set())
    assert refusal(api.create("statefulsets", stateful_set()))[2] == 'statefulsets.apps "a" already exists'


def test_a_missing_object_is_not_found(api: Api) -> None:
    assert refusal(api.get("secrets", "a")) == (404, "NotFound", 'secrets "a" not found')
    assert refusal(api.delete("statefulsets", "a")) == (404, "NotFound", 'statefulsets.apps "a" not found')
    assert refusal(api.merge("secrets", "a", {}))[:2] == (404, "NotFound")


def test_nothing_is_made_in_a_namespace_that_is_not_there(http: Http) -> None:
    nowhere = Api(http, "nowhere")
    status, said = nowhere.create("configmaps", config_map())
    assert (status, said["details"]["kind"]) == (404, "namespaces")
    status, said = nowhere.apply("configmaps", config_map(), "one")
    assert (status, said["details"]["kind"]) == (404, "namespaces")
    assert refusal(nowhere.get("configmaps", "a"))[2] == 'configmaps "a" not found'


def test_an_unknown_field_is_refused_or_dropped(api: Api) -> None:
    body = stateful_set(replica=2)
    status, reason, message = refusal(api.create("statefulsets", body, "fieldValidation=Strict"))
    assert (status, reason) == (400, "BadRequest")
    assert 'strict decoding error: unknown field "spec.replica"' in message
    status, made = api.create("statefulsets", body)
    assert status == 201
    assert "replica" not in made["spec"]


def test_an_apply_with_an_unknown_field_is_refused(api: Api) -> None:
    status, said = api.apply("statefulsets", stateful_set(replica=2), "one")
    assert status == 500
    where = "(/a; apps/v1, Kind=StatefulSet)"
    wrong = ".spec.replica: field not declared in schema"
    assert said["message"] == f"failed to create typed patch object {where}: {wrong}"
    assert api.get("statefulsets", "a")[0] == 404


def test_a_wrong_type_is_refused(api: Api) -> None:
    assert refusal(api.create("statefulsets", stateful_set(replicas="two")))[:2] == (400, "BadRequest")


def test_versions_grow_with_changes_and_with_nothing_else(api: Api) -> None:
    first = api.apply("statefulsets", stateful_set(replicas=0), "one")[1]["metadata"]
    assert first["generation"] == 1
    again = api.apply("statefulsets", stateful_set(replicas=0), "one")[1]["metadata"]
    assert again["generation"] == 1
    labelled = api.merge("statefulsets", "a", {"metadata": {"labels": {"x": "y"}}})[1]["metadata"]
    assert labelled["generation"] == 1
    assert labelled["resourceVersion"] != first["resourceVersion"]
    scaled = api.merge("statefulsets", "a", {"spec": {"minReadySeconds": 5}})[1]["metadata"]
    assert scaled["generation"] == 2
    assert scaled["uid"] == first["uid"]


def test_an_apply_that_changes_nothing_makes_no_new_version(api: Api) -> None:
    first = api.apply("configmaps", config_map(data={"k": "v"}), "one")[1]
    again = api.apply("configmaps", config_map(data={"k": "v"}), "one")[1]
    assert first["metadata"]["resourceVersion"] == again["metadata"]["resourceVersion"]


def test_an_apply_creates_or_changes(api: Api) -> None:
    assert api.apply("configmaps", config_map(data={"k": "v"}), "one")[0] == 201
    status, changed = api.apply("configmaps", config_map(data={"k": "w"}), "one")
    assert (status, changed["data"]) == (200, {"k": "w"})


def test_an_apply_needs_a_manager_and_an_object(api: Api) -> None:
    status, said = api._http("PATCH", api.path("configmaps", "a"), config_map(), kind=APPLY)
    assert (status, said["reason"]) == (422, "Invalid")
    body = {**config_map(), "kind": "Secret"}
    assert refusal(api.apply("configmaps", body, "one"))[0] == 400
    managed = config_map(managedFields=[{"manager": "one"}])
    assert refusal(api.apply("configmaps", managed, "one")) == (
        400,
        "BadRequest",
        "metadata.managedFields must be nil",
    )


def test_fields_are_owned_by_who_applied_them(api: Api) -> None:
    made = api.apply("configmaps", config_map(data={"k": "v"}, labels={"x": "y"}), "one")[1]
    assert fields_of(made, "one") == {"f:data": {"f:k": {}}, "f:metadata": {"f:labels": {"f:x": {}}}}


def test_another_manager_gets_the_conflict(api: Api) -> None:
    api.apply("configmaps", config_map(data={"k": "v"}), "one")
    status, said = api.apply("configmaps", config_map(data={"k": "w"}), "two")
    assert (status, said["reason"]) == (409, "Conflict")
    assert said["message"] == 'Apply failed with 1 conflict: conflict with "one": .data.k'
    assert said["details"]["causes"][0]["field"] == ".data.k"
    assert said["details"]["causes"][0]["reason"] == "FieldManagerConflict"
    assert api.get("configmaps", "a")[1]["data"] == {"k": "v"}


def test_the_same_value_is_shared(api: Api) -> None:
    api.apply("configmaps", config_map(data={"k": "v"}), "one")
    status, shared = api.apply("configmaps", config_map(data={"k": "v"}), "two")
    assert status == 200
    assert fields_of(shared, "one") == fields_of(shared, "two") == {"f:data": {"f:k": {}}}
    left = api.apply("configmaps", config_map(), "one")[1]
    assert left["data"] == {"k": "v"}
    assert "data" not in api.apply("configmaps", config_map(), "two")[1]


def test_force_takes_a_field(api: Api) -> None:
    api.apply("configmaps", config_map(data={"k": "v", "m": "n"}), "one")
    taken = api.apply("configmaps", config_map(data={"k": "w"}), "two", force=True)[1]
    assert taken["data"] == {"k": "w", "m": "n"}
    assert fields_of(taken, "one") == {"f:data": {"f:m": {}}}
    assert fields_of(taken, "two") == {"f:data": {"f:k": {}}}


def test_fields_that_are_no_longer_applied_are_removed(api: Api) -> None:
    api.apply("configmaps", config_map(data={"k": "v", "m": "n"}, labels={"x": "y"}), "one")
    left = api.apply("configmaps", config_map(data={"m": "n"}), "one")[1]
    assert left["data"] == {"m": "n"}
    assert "labels" not in left["metadata"]


def test_a_patch_takes_ownership_and_an_apply_is_told(api: Api) -> None:
    api.apply("statefulsets", stateful_set(replicas=0), "one")
    patched = api.merge("statefulsets", "a", {"spec": {"replicas": 2}})[1]
    assert "f:replicas" not in fields_of(patched, "one")["f:spec"]
    status, said = api.apply("statefulsets", stateful_set(replicas=0), "one")
    assert status == 409
    assert said["message"] == 'Apply failed with 1 conflict: conflict with "patcher" using apps/v1: .spec.replicas'
    assert api.apply("statefulsets", stateful_set(replicas=0), "one", force=True)[1]["spec"]["replicas"] == 0


def test_items_of_a_list_with_keys_have_owners_of_their_own(api: Api) -> None:
    api.apply("services", service(1), "one")
    both = api.apply("services", service(2), "two")[1]
    assert {port["port"] for port in both["spec"]["ports"]} == {1, 2}
    key = 'k:{"port":1,"protocol":"TCP"}'
    ports = fields_of(both, "one")["f:spec"]["f:ports"]
    assert ports == {key: {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}}} or ports == {
        key: {".": {}, "f:name": {}, "f:port": {}}
    }
    left = api.apply("services", service(3), "one")[1]
    assert {port["port"] for port in left["spec"]["ports"]} == {2, 3}


def test_a_selector_is_owned_as_a_whole(api: Api) -> None:
    made = api.apply("services", service(1), "one")[1]
    assert fields_of(made, "one")["f:spec"]["f:selector"] == {}
    status, said = api.apply("services", service(2, selector={"app": "b"}), "two")
    assert status == 409
    assert said["message"] == 'Apply failed with 1 conflict: conflict with "one": .spec.selector'


def test_a_list_without_keys_is_replaced_as_a_whole(api: Api) -> None:
    api.apply("statefulsets", stateful_set(replicas=0), "one")
    body = stateful_set(replicas=0)
    body["spec"]["template"]["spec"]["containers"][0]["args"] = ["y", "z"]
    changed = api.apply("statefulsets", body, "one")[1]
    assert changed["spec"]["template"]["spec"]["containers"][0]["args"] == ["y", "z"]
    containers = fields_of(changed, "one")["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert containers['k:{"name":"main"}']["f:args"] == {}


def test_an_apply_may_say_which_object_it_means(api: Api) -> None:
    unknown = "00000000-0000-0000-0000-000000000000"
    status, reason, message = refusal(api.apply("configmaps", config_map(uid=unknown), "one"))
    assert (status, reason) == (409, "Conflict")
    assert f"uid mismatch: the provided object specified uid {unknown}, and no existing object was found" in message
    made = api.apply("configmaps", config_map(data={"k": "v"}), "one")[1]
    assert api.apply("configmaps", config_map(data={"k": "w"}, uid=made["metadata"]["uid"]), "one")[0] == 200
    wrong = api.apply("configmaps", config_map(data={"k": "x"}, uid=unknown), "one", force=True)
    assert refusal(wrong)[:2] == (422, "Invalid")
    assert "metadata.uid" in refusal(wrong)[2]
    assert api.get("configmaps", "a")[1]["data"] == {"k": "w"}


def test_a_patch_may_say_which_object_it_means(api: Api) -> None:
    api.create("configmaps", config_map(data={"k": "v"}))
    unknown = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}, "data": {"k": "w"}}
    assert refusal(api.merge("configmaps", "a", unknown))[:2] == (422, "Invalid")
    stale = {"metadata": {"resourceVersion": "1"}, "data": {"k": "w"}}
    status, reason, message = refusal(api.merge("configmaps", "a", stale))
    assert (status, reason) == (409, "Conflict")
    assert "the object has been modified; please apply your changes to the latest version and try again" in message
    assert api.get("configmaps", "a")[1]["data"] == {"k": "v"}


def test_a_deletion_may_say_which_object_it_means(api: Api) -> None:
    made = api.create("configmaps", config_map())[1]
    other = {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}
    assert refusal(api.delete("configmaps", "a", body=other))[:2] == (409, "Conflict")
    assert api.delete("configmaps", "a", body={"preconditions": {"uid": made["metadata"]["uid"]}})[0] == 200
    assert api.get("configmaps", "a")[0] == 404


def test_a_finalizer_holds_what_is_deleted(api: Api) -> None:
    api.create("configmaps", config_map(finalizers=["interlock.dev/test"]))
    status, held = api.delete("configmaps", "a")
    assert status == 200
    assert held["metadata"]["deletionTimestamp"]
    assert api.get("configmaps", "a")[0] == 200
    api.merge("configmaps", "a", {"metadata": {"finalizers": None}})
    assert api.get("configmaps", "a")[0] == 404


def test_lists_are_chosen_by_label_and_by_field(api: Api) -> None:
    api.create("configmaps", config_map("a", labels={"x": "1"}))
    api.create("configmaps", config_map("b", labels={"x": "2", "y": "1"}))
    api.create("configmaps", config_map("c"))
    assert api.list("configmaps", "labelSelector=x") == {"a", "b"}
    assert api.list("configmaps", "labelSelector=x=1") == {"a"}
    assert api.list("configmaps", "labelSelector=x%3D2,y") == {"b"}
    assert api.list("configmaps", "labelSelector=x,x!=1") == {"b"}
    assert api.list("configmaps", "fieldSelector=metadata.name%3Dc") == {"c"}


def test_several_conflicts_are_listed(api: Api) -> None:
    api.apply("configmaps", config_map(data={"k": "v", "m": "n"}), "one")
    message = refusal(api.apply("configmaps", config_map(data={"k": "w", "m": "w"}), "two"))[2]
    assert message == 'Apply failed with 2 conflicts: conflicts with "one":\n- .data.k\n- .data.m'


def test_several_ports_need_names(api: Api) -> None:
    body = service(1, 2)
    del body["spec"]["ports"][0]["name"]
    assert "spec.ports[0].name: Required value" in refusal(api.apply("services", body, "one"))[2]


def test_a_budget_has_one_bound(api: Api) -> None:
    spec = {"minAvailable": 1, "maxUnavailable": 0, "selector": {"matchLabels": {"app": "a"}}}
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "a"}, "spec": spec}
    status, reason, message = refusal(api.apply("poddisruptionbudgets", body, "one"))
    assert (status, reason) == (422, "Invalid")
    assert "minAvailable and maxUnavailable cannot be both set" in message


@pytest.mark.skipif(not at_hand(), reason="there is no real API server to compare with")
def test_objects_of_the_driver_are_owned_as_on_a_real_server(
    real_cluster: RealCluster, fake_cluster: FakeCluster, role: dict[str, Any], tmp_path: Path
) -> None:
    spec, settings = Spec(id="same", name="shop", dns_name="a.example"), KubernetesSettings()
    applied: list[Any] = [
        objects.config_map(spec, {"k": "v"}),
        objects.headless(spec),
        objects.service(spec, settings),
        objects.budget(spec),
        objects.stateful_set(spec, settings, version="17", template_bytes=2**30, configured="x"),
    ]
    plurals = ["configmaps", "services", "services", "poddisruptionbudgets", "statefulsets"]
    owned: list[list[Any]] = []
    for cluster in (real_cluster, fake_cluster):
        namespace = cluster.new_namespace(role)
        http = Http(
            cluster.admin
            if isinstance(cluster, RealCluster)
            else cluster.kubeconfig(tmp_path / "k", namespace=namespace)
        )
        made = [
            Api(http, namespace).apply(plural, thing.to_dict(), "interlock")
            for plural, thing in zip(plurals, applied, strict=True)
        ]
        assert [status for status, _ in made] == [201] * 5, made
        owned.append([fields_of(thing, "interlock") for _, thing in made])
        http.close()
    assert owned[0] == owned[1]


def test_labels_and_names_have_rules(api: Api) -> None:
    status, reason, message = refusal(api.create("configmaps", config_map(labels={"x": "no spaces"})))
    assert (status, reason) == (422, "Invalid")
    assert "metadata.labels" in message
    assert refusal(api.create("configmaps", config_map("Upper")))[0] == 422
    assert refusal(api.create("services", service(1, name="a" * 64)))[0] == 422


def test_most_of_a_stateful_set_cannot_be_changed(api: Api) -> None:
    api.apply("statefulsets", stateful_set(replicas=0), "one")
    changed = stateful_set(replicas=0)
    changed["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = "2Gi"
    status, reason, message = refusal(api.apply("statefulsets", changed, "one", force=True))
    assert (status, reason) == (422, "Invalid")
    assert "updates to statefulset spec for fields other than" in message


def test_a_stateful_set_has_to_select_its_own_pods(api: Api) -> None:
    body = stateful_set()
    body["spec"]["template"]["metadata"]["labels"] = {"app": "another"}
    status, reason, message = refusal(api.apply("statefulsets", body, "one"))
    assert (status, reason) == (422, "Invalid")
    assert "`selector` does not match template `labels`" in message


def test_a_container_has_to_have_what_it_mounts(api: Api) -> None:
    body = stateful_set(volumeClaimTemplates=[])
    status, reason, message = refusal(api.apply("statefulsets", body, "one"))
    assert (status, reason) == (422, "Invalid")
    assert 'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"' in message


def test_secrets_are_base64(api: Api) -> None:
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": "not base64!"}}
    assert refusal(api.create("secrets", body))[0] == 400


def test_an_unknown_login_is_refused(http: Http) -> None:
    answer = http._client.get("/api/v1/namespaces/default/pods", auth=None, headers={"Authorization": "Bearer guess"})
    assert answer.status_code == 401
    assert json.loads(answer.content)["reason"] == "Unauthorized"
