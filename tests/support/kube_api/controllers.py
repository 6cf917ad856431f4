"""The controller manager: it creates pods and volumes from StatefulSets, and deletes objects whose owner is gone."""

import hashlib
import json
from typing import Any

from support.kube_api.schema import BY_NAME
from support.kube_api.store import Store, Stored

_PROTECTION = "kubernetes.io/pvc-protection"
_FOREGROUND = "foregroundDeletion"
_REVISION = "controller-revision-hash"


def step(store: Store) -> None:
    for stateful_set in store.all("statefulsets"):
        if "deletionTimestamp" not in stateful_set.body["metadata"]:
            _reconcile(store, stateful_set)
    for claim in store.all("persistentvolumeclaims"):
        if "deletionTimestamp" in claim.body["metadata"] and not _used(store, claim):
            store.release(claim, _PROTECTION)
    _collect(store)


def _reconcile(store: Store, stateful_set: Stored) -> None:
    metadata, spec = stateful_set.body["metadata"], stateful_set.body["spec"]
    namespace, name = metadata["namespace"], f"{metadata['name']}-0"
    pod = store.find("pods", namespace, name)
    if spec["replicas"] == 0:
        if pod is not None and "deletionTimestamp" not in pod.body["metadata"]:
            store.delete(pod)
    elif pod is not None and spec["updateStrategy"]["type"] == "RollingUpdate" and _outdated(stateful_set, pod):
        store.delete(pod)
    elif pod is None:
        claims = [_claim(store, stateful_set, template, name) for template in spec.get("volumeClaimTemplates", [])]
        store.create(BY_NAME["Pod"], namespace, _pod(stateful_set, name, claims), "kube-controller-manager")
    ready = pod is not None and any(
        one["type"] == "Ready" and one["status"] == "True" for one in pod.body.get("status", {}).get("conditions", [])
    )
    status = {"replicas": int(pod is not None), "readyReplicas": int(ready)}
    store.set_status(stateful_set, {**status, "observedGeneration": metadata["generation"]})


def _claim(store: Store, stateful_set: Stored, template: dict[str, Any], pod: str) -> dict[str, Any]:
    """The volume, created unless one with that name exists, of any owner."""
    metadata, spec = stateful_set.body["metadata"], stateful_set.body["spec"]
    name = f"{template['metadata']['name']}-{pod}"
    if store.find("persistentvolumeclaims", metadata["namespace"], name) is None:
        labels = template["metadata"].get("labels", {}) | spec["selector"].get("matchLabels", {})
        meta = {"name": name, "labels": labels, "annotations": template["metadata"].get("annotations", {})}
        if spec.get("persistentVolumeClaimRetentionPolicy", {}).get("whenDeleted") == "Delete":
            meta["ownerReferences"] = [_reference(stateful_set)]
        body = {"metadata": meta, "spec": template["spec"]}
        store.create(BY_NAME["PersistentVolumeClaim"], metadata["namespace"], body, "kube-controller-manager")
    return {"name": template["metadata"]["name"], "persistentVolumeClaim": {"claimName": name}}


def _pod(stateful_set: Stored, name: str, claims: list[dict[str, Any]]) -> dict[str, Any]:
    template = stateful_set.body["spec"]["template"]
    metadata = {
        "name": name,
        "labels": {
            **template["metadata"].get("labels", {}),
            "statefulset.kubernetes.io/pod-name": name,
            _REVISION: _revision(stateful_set),
        },
        "annotations": template["metadata"].get("annotations", {}),
        "ownerReferences": [_reference(stateful_set)],
    }
    volumes = [*template["spec"].get("volumes", []), *claims]
    return {"metadata": metadata, "spec": {**template["spec"], "volumes": volumes}}


def _outdated(stateful_set: Stored, pod: Stored) -> bool:
    return bool(pod.body["metadata"]["labels"][_REVISION] != _revision(stateful_set))


def _revision(stateful_set: Stored) -> str:
    template = json.dumps(stateful_set.body["spec"]["template"], sort_keys=True)
    return hashlib.sha256(template.encode()).hexdigest()[:10]


def _reference(owner: Stored) -> dict[str, Any]:
    return {
        "apiVersion": owner.kind.api_version,
        "kind": owner.kind.name,
        "name": owner.body["metadata"]["name"],
        "uid": owner.body["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _used(store: Store, claim: Stored) -> bool:
    name, namespace = claim.body["metadata"]["name"], claim.body["metadata"]["namespace"]
    return any(
        volume.get("persistentVolumeClaim", {}).get("claimName") == name
        for pod in store.all("pods", namespace)
        for volume in pod.body["spec"].get("volumes", [])
    )


def _collect(store: Store) -> None:
    """Delete objects whose owner is gone. An object that is deleted in the foreground waits for those that it owns."""
    alive = {thing.body["metadata"]["uid"]: thing for thing in store.everything()}
    waited_for: set[str] = set()
    for thing in store.everything():
        for reference in thing.body["metadata"].get("ownerReferences", []):
            owner = alive.get(reference["uid"])
            leaving = owner is not None and _FOREGROUND in owner.body["metadata"].get("finalizers", [])
            if (owner is None or leaving) and "deletionTimestamp" not in thing.body["metadata"]:
                store.delete(thing)
            if leaving:
                waited_for.add(reference["uid"])
    for uid, thing in alive.items():
        if _FOREGROUND in thing.body["metadata"].get("finalizers", []) and uid not in waited_for:
            store.release(thing, _FOREGROUND)
