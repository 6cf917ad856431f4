"""The kinds of the server: their fields, and the merge strategies of lists and maps.

The fields are those of lightkube's models, which are generated from Kubernetes' own description. That says also how
lists are merged, which the models leave out: it is copied here for the kinds in use.
"""

import typing
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin

import msgspec
from lightkube.models import apps_v1, core_v1, meta_v1, policy_v1


@dataclass(frozen=True)
class Kind:
    group: str
    version: str
    plural: str
    name: str
    model: type

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


KINDS = {
    (kind.group, kind.plural): kind
    for kind in (
        Kind("", "v1", "secrets", "Secret", core_v1.Secret),
        Kind("", "v1", "configmaps", "ConfigMap", core_v1.ConfigMap),
        Kind("", "v1", "services", "Service", core_v1.Service),
        Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", core_v1.PersistentVolumeClaim),
        Kind("", "v1", "pods", "Pod", core_v1.Pod),
        Kind("", "v1", "events", "Event", core_v1.Event),
        Kind("apps", "v1", "statefulsets", "StatefulSet", apps_v1.StatefulSet),
        Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", policy_v1.PodDisruptionBudget),
    )
}
BY_NAME = {kind.name: kind for kind in KINDS.values()}

Merging = Literal["granular", "atomic", "set"] | tuple[str, ...]

_ATOMIC_MODELS = {
    meta_v1.LabelSelector,
    core_v1.ConfigMapKeySelector,
    core_v1.LocalObjectReference,
    core_v1.ObjectFieldSelector,
    core_v1.ObjectReference,
    core_v1.ResourceFieldSelector,
    core_v1.SecretKeySelector,
    core_v1.TypedLocalObjectReference,
}
_FIELDS: dict[tuple[type, str], Merging] = {
    (core_v1.ServiceSpec, "selector"): "atomic",
    (core_v1.PodSpec, "nodeSelector"): "atomic",
    (core_v1.PodSpec, "containers"): ("name",),
    (core_v1.PodSpec, "initContainers"): ("name",),
    (core_v1.PodSpec, "volumes"): ("name",),
    (core_v1.Container, "env"): ("name",),
    (core_v1.Container, "ports"): ("containerPort", "protocol"),
    (core_v1.Container, "volumeMounts"): ("mountPath",),
    (core_v1.ServiceSpec, "ports"): ("port", "protocol"),
    (meta_v1.ObjectMeta, "finalizers"): "set",
    (meta_v1.ObjectMeta, "ownerReferences"): ("uid",),
}


def merging(owner: Any, field: str, value: Any) -> Merging:
    """The merge strategy of a field. `owner` is the model, or None inside a plain map."""
    if isinstance(owner, type):
        told = _FIELDS.get((owner, field))
        if told is not None:
            return told
        if field_type(owner, field) in _ATOMIC_MODELS:
            return "atomic"
    return "atomic" if isinstance(value, list) else "granular"


def field_type(model: Any, field: str) -> Any:
    """The model of a field or of its items; None if it has none of its own."""
    declared = _declared(model).get(field) if isinstance(model, type) else None
    inner = _plain(declared)
    return inner if _is_model(inner) else None


def unknown_fields(value: Any, model: Any, path: str = "") -> list[str]:
    """Paths of fields that the model does not have."""
    if isinstance(value, list):
        return [found for index, item in enumerate(value) for found in unknown_fields(item, model, f"{path}[{index}]")]
    if not isinstance(value, dict) or not _is_model(model):
        return []
    found = []
    for name, inner in value.items():
        context = f"{path}.{name}" if path else name
        if name not in _declared(model):
            found.append(context)
        else:
            found += unknown_fields(inner, field_type(model, name), context)
    return found


def pruned(value: Any, model: Any) -> Any:
    """The object without the fields that the model does not have."""
    if isinstance(value, list):
        return [pruned(item, model) for item in value]
    if not isinstance(value, dict) or not _is_model(model):
        return value
    known = _declared(model)
    return {name: pruned(inner, field_type(model, name)) for name, inner in value.items() if name in known}


def type_error(value: Any, model: type) -> str | None:
    """The values of a wrong type and the missing ones, as msgspec reports them."""
    try:
        msgspec.convert(value, model)
    except msgspec.ValidationError as error:
        return str(error)
    return None


@cache
def _declared(model: type) -> dict[str, Any]:
    hints = typing.get_type_hints(model)
    return {field.encode_name: hints[field.name] for field in msgspec.structs.fields(model)}


def _is_model(declared: Any) -> bool:
    return isinstance(declared, type) and issubclass(declared, msgspec.Struct)


def _plain(declared: Any) -> Any:
    """The type without Optional; of a list or map, the type of its items."""
    while get_origin(declared) is not None:
        arguments = [one for one in get_args(declared) if one is not type(None)]
        declared = arguments[-1]
    return declared
