"""Defaults that the API server adds to objects, and objects that it refuses, for the kinds and fields in use."""

import re
from typing import Any

from lightkube.utils.quantity import parse_quantity

from support.kube_api import statuses
from support.kube_api.schema import Kind

Body = dict[str, Any]

_LABEL_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_ANNOTATION = re.compile(r"([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_CHANGEABLE = {
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
}  # fmt: skip


def complete(kind: Kind, body: Body) -> None:
    """Defaults that other components rely on."""
    spec = body.get("spec", {})
    if kind.name == "StatefulSet":
        spec.setdefault("replicas", 1)
        spec.setdefault("updateStrategy", {}).setdefault("type", "RollingUpdate")
        body["metadata"].setdefault("generation", 1)
    if kind.name == "PodDisruptionBudget":
        body["metadata"].setdefault("generation", 1)
    if kind.name == "Service":
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("clusterIP", "10.0.0.1")
        body.setdefault("status", {"loadBalancer": {}})
    if kind.name == "PersistentVolumeClaim":
        finalizers = body["metadata"].setdefault("finalizers", [])
        if "kubernetes.io/pvc-protection" not in finalizers and "deletionTimestamp" not in body["metadata"]:
            finalizers.append("kubernetes.io/pvc-protection")
        body.setdefault("status", {"phase": "Pending"})


def validate(kind: Kind, body: Body, old: Body | None) -> None:
    causes = [*_metadata(kind, body, old), *_RULES.get(kind.name, _nothing)(body, old)]
    if causes:
        raise statuses.invalid(kind.name, body["metadata"]["name"], *causes, group=kind.group)


def admit(kind: Kind, body: Body, old: Body, *, expandable: bool) -> None:
    """Refuse to grow a volume if the storage class does not support that."""
    if kind.name == "PersistentVolumeClaim" and _size(body) > _size(old) and not expandable:
        why = (
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support "
            "resize"
        )
        raise statuses.forbidden(kind.plural, body["metadata"]["name"], why)


def _metadata(kind: Kind, body: Body, old: Body | None) -> list[str]:
    metadata, causes = body["metadata"], []
    pattern, length = (_SERVICE_NAME, 63) if kind.name == "Service" else (_LABEL_NAME, 253)
    if len(metadata["name"]) > length or not pattern.fullmatch(metadata["name"]):
        causes.append(f'metadata.name: Invalid value: "{metadata["name"]}": a lowercase RFC 1123 name must be used')
    wrong = [value for value in metadata.get("labels", {}).values() if not _LABEL_VALUE.fullmatch(value)]
    causes += [f'metadata.labels: Invalid value: "{value}": a valid label must be used' for value in wrong]
    keys = [key for key in metadata.get("annotations", {}) if not _ANNOTATION.fullmatch(key)]
    causes += [f'metadata.annotations: Invalid value: "{key}": name part must consist of characters' for key in keys]
    if old is not None and metadata.get("uid") != old["metadata"]["uid"]:
        causes.append(f'metadata.uid: Invalid value: "{metadata.get("uid")}": field is immutable')
    return causes


def _stateful_set(body: Body, old: Body | None) -> list[str]:
    spec, causes = body["spec"], []
    template = spec["template"]
    if old is not None:
        if {name: one for name, one in spec.items() if name not in _CHANGEABLE} != {
            name: one for name, one in old["spec"].items() if name not in _CHANGEABLE
        }:
            causes.append(
                "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', "
                "'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
                "'minReadySeconds' are forbidden"
            )
        return causes
    labels = template.get("metadata", {}).get("labels", {})
    selector = spec["selector"].get("matchLabels", {})
    if not selector.items() <= labels.items():
        causes.append("spec.template.metadata.labels: Invalid value: `selector` does not match template `labels`")
    names = {volume["name"] for volume in template["spec"].get("volumes", [])}
    names |= {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
    for index, container in enumerate(template["spec"]["containers"]):
        at = f"spec.template.spec.containers[{index}]"
        if not container.get("image"):
            causes.append(f"{at}.image: Required value")
        for place, mount in enumerate(container.get("volumeMounts", [])):
            if mount["name"] not in names:
                causes.append(f'{at}.volumeMounts[{place}].name: Not found: "{mount["name"]}"')
    return causes


def _claim(body: Body, old: Body | None) -> list[str]:
    if old is None:
        return [] if _size(body) > 0 else ["spec.resources[storage]: Invalid value: must be greater than zero"]
    if _size(body) == _size(old):
        return []
    if old.get("status", {}).get("phase") != "Bound":
        return ["spec: Forbidden: spec is immutable after creation except resources.requests for bound claims"]
    if _size(body) < _size(old):
        return ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]
    return []


def _service(body: Body, old: Body | None) -> list[str]:
    spec = body["spec"]
    if len(ports := spec.get("ports", [])) > 1:
        unnamed = [
            f"spec.ports[{index}].name: Required value" for index, port in enumerate(ports) if "name" not in port
        ]
        if unnamed:
            return unnamed
    if not spec.get("ports") and spec.get("clusterIP") != "None":
        return ["spec.ports: Required value"]
    if old is not None and spec.get("clusterIP") != old["spec"].get("clusterIP"):
        return ["spec.clusterIPs[0]: Invalid value: may not change once set"]
    return []


def _budget(body: Body, old: Body | None) -> list[str]:
    if {"minAvailable", "maxUnavailable"} <= body["spec"].keys():
        return ["spec: Invalid value: minAvailable and maxUnavailable cannot be both set"]
    return []


def _nothing(body: Body, old: Body | None) -> list[str]:
    return []


def _size(body: Body) -> Any:
    return parse_quantity(body["spec"]["resources"]["requests"]["storage"])


_RULES = {
    "StatefulSet": _stateful_set,
    "PersistentVolumeClaim": _claim,
    "Service": _service,
    "PodDisruptionBudget": _budget,
}
