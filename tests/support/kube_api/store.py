"""The objects of the server: their versions, the owners of their fields, and their deletion."""

import base64
import binascii
import copy
import itertools
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from support.kube_api import fields, statuses
from support.kube_api.schema import Kind, pruned, type_error, unknown_fields
from support.kube_api.validation import admit, complete, validate

Body = dict[str, Any]
Key = tuple[str, str, str]
"""Plural, namespace, name."""


@dataclass
class Stored:
    kind: Kind
    body: Body
    managers: dict[tuple[str, str], set[fields.Path]] = field(default_factory=dict)
    """(manager, operation) → what it owns."""

    def shown(self) -> Body:
        shown = copy.deepcopy(self.body)
        shown["metadata"]["managedFields"] = [
            {
                "manager": manager,
                "operation": operation,
                "apiVersion": self.kind.api_version,
                "time": shown["metadata"]["creationTimestamp"],
                "fieldsType": "FieldsV1",
                "fieldsV1": fields.as_fields_v1(owned),
            }
            for (manager, operation), owned in self.managers.items()
            if owned
        ]
        return shown


class Store:
    def __init__(self, *namespaces: str) -> None:
        self.namespaces = set(namespaces)
        self.expandable = True
        """True if the storage class lets volumes grow."""
        self.quota: set[str] = set()
        """Plurals with an exhausted quota."""
        self.contended = False
        """True if other clients create objects at the same time, so that the quota is counted again."""
        self._things: dict[Key, Stored] = {}
        self._revisions = itertools.count(100)

    @property
    def revision(self) -> str:
        return str(next(self._revisions))

    def all(self, plural: str, namespace: str | None = None) -> list[Stored]:
        return [
            thing
            for (kind, where, _), thing in sorted(self._things.items())
            if kind == plural and namespace in (None, where)
        ]

    def everything(self) -> Iterator[Stored]:
        yield from list(self._things.values())

    def find(self, plural: str, namespace: str, name: str) -> Stored | None:
        return self._things.get((plural, namespace, name))

    def get(self, kind: Kind, namespace: str, name: str) -> Stored:
        found = self.find(kind.plural, namespace, name)
        if found is None:
            raise statuses.not_found(kind.plural, name, kind.group)
        return found

    def create(self, kind: Kind, namespace: str, body: Body, manager: str, *, strict: bool = False) -> Stored:
        self._check_namespace(namespace)
        if "name" not in body.get("metadata", {}) and (prefix := body["metadata"].get("generateName")):
            body["metadata"]["name"] = prefix + uuid.uuid4().hex[:5]
        name = body["metadata"].get("name")
        body = _decoded(kind, body, strict=strict)
        if self.find(kind.plural, namespace, name) is not None:
            raise statuses.exists(kind.plural, name, kind.group)
        given = fields.owned_fields(body, kind.model)
        return self._add(kind, namespace, body, {(manager, "Update"): set(given)})

    def apply(
        self, kind: Kind, namespace: str, name: str, body: Body, manager: str, force: bool
    ) -> tuple[Stored, bool]:
        """The object, and True if it was created."""
        self._check_namespace(namespace)
        if body.get("apiVersion") != kind.api_version or body.get("kind") != kind.name:
            raise statuses.bad_request("apiVersion and kind have to be given, and be those of the path")
        metadata = body.setdefault("metadata", {})
        if metadata.get("managedFields"):
            raise statuses.bad_request("metadata.managedFields must be nil")
        if metadata.get("name", name) != name:
            raise statuses.bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
            )
        _declared(kind, body)
        metadata["name"] = name
        live = self.find(kind.plural, namespace, name)
        if live is None:
            if uid := metadata.get("uid"):
                why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                raise statuses.conflict(kind.plural, name, why, kind.group)
            body = _decoded(kind, body)
            owned = set(fields.owned_fields(body, kind.model))
            return self._add(kind, namespace, body, {(manager, "Apply"): owned}), True
        self._apply_onto(live, body, manager, force)
        return live, False

    def _apply_onto(self, live: Stored, body: Body, manager: str, force: bool) -> None:
        kind = live.kind
        wanted = fields.owned_fields(body, kind.model)
        there = fields.owned_fields(live.body, kind.model)
        changed = {path for path, value in wanted.items() if path not in there or there[path] != value}
        others = {who: owned for who, owned in live.managers.items() if who != (manager, "Apply")}
        disputed = {who: owned & changed for who, owned in others.items() if owned & changed}
        if disputed and not force:
            raise _disputed(kind, disputed)
        managers = {who: owned - changed for who, owned in others.items()} | {(manager, "Apply"): set(wanted)}
        dropped = live.managers.get((manager, "Apply"), set()) - set(wanted)
        kept = set().union(*managers.values())
        body = fields.merged(live.body, {**body, "metadata": _settable(body["metadata"])}, kind.model)
        self._replace(live, fields.without(body, dropped, kept, kind.model), managers)

    def merge(self, live: Stored, patch: Body, manager: str) -> None:
        """A JSON merge patch."""
        version = patch.get("metadata", {}).get("resourceVersion")
        if version not in (None, live.body["metadata"]["resourceVersion"]):
            why = "the object has been modified; please apply your changes to the latest version and try again"
            raise statuses.conflict(live.kind.plural, live.body["metadata"]["name"], why, live.kind.group)
        self.update(live, _decoded(live.kind, _merge_patched(live.body, patch)), manager)

    def update(self, live: Stored, body: Body, manager: str) -> None:
        kind = live.kind
        old, new = (fields.owned_fields(one, kind.model) for one in (live.body, body))
        changed = {path for path, value in new.items() if path not in old or old[path] != value}
        gone = set(old) - set(new)
        managers = {who: owned - changed - gone for who, owned in live.managers.items()}
        managers[manager, "Update"] = managers.get((manager, "Update"), set()) | changed
        self._replace(live, body, managers)

    def set_status(self, live: Stored, status: Body) -> None:
        """Write a status as the controllers do, without a field manager."""
        if live.body.get("status") != status:
            live.body["status"] = copy.deepcopy(status)
            live.body["metadata"]["resourceVersion"] = self.revision

    def delete(self, live: Stored, *, propagation: str = "Background", grace: int | None = None) -> None:
        """Delete an object. A finalizer or a running pod delays that: the object is only marked until then."""
        metadata = live.body["metadata"]
        if propagation == "Foreground" and "foregroundDeletion" not in metadata.get("finalizers", []):
            metadata.setdefault("finalizers", []).append("foregroundDeletion")
        scheduled = live.kind.name == "Pod" and live.body["spec"].get("nodeName")
        if (metadata.get("finalizers") or scheduled) and grace != 0:
            if "deletionTimestamp" not in metadata:
                metadata["deletionTimestamp"] = _now()
                metadata["deletionGracePeriodSeconds"] = 30 if scheduled else 0
                metadata["generation"] = metadata.get("generation", 0) + 1
                metadata["resourceVersion"] = self.revision
            return
        self._things.pop(self.key(live), None)

    def release(self, live: Stored, finalizer: str) -> None:
        """Remove a finalizer. Without the last one, a deleted object is removed."""
        metadata = live.body["metadata"]
        metadata["finalizers"] = [one for one in metadata.get("finalizers", []) if one != finalizer]
        metadata["resourceVersion"] = self.revision
        if not metadata["finalizers"]:
            del metadata["finalizers"]
            if "deletionTimestamp" in metadata:
                self._forget(live)

    def _forget(self, live: Stored) -> None:
        """Return True if nothing delays the deletion. A pod has to end first."""
        if not (live.kind.name == "Pod" and live.body["spec"].get("nodeName")):
            self._things.pop(self.key(live), None)

    @staticmethod
    def key(thing: Stored) -> Key:
        metadata = thing.body["metadata"]
        return thing.kind.plural, metadata["namespace"], metadata["name"]

    def _add(self, kind: Kind, namespace: str, body: Body, managers: dict[tuple[str, str], set[fields.Path]]) -> Stored:
        body = copy.deepcopy(body)
        body.pop("status", None)
        body["apiVersion"], body["kind"] = kind.api_version, kind.name
        body["metadata"] = {
            **body["metadata"],
            "namespace": namespace,
            "uid": str(uuid.uuid4()),
            "creationTimestamp": _now(),
            "resourceVersion": self.revision,
        }
        if kind.plural in self.quota:
            why = f"exceeded quota: small, requested: {kind.plural}=1, used: {kind.plural}=1, limited: {kind.plural}=1"
            raise statuses.forbidden(kind.plural, body["metadata"]["name"], why)
        if self.contended:
            why = "the object has been modified; please apply your changes to the latest version and try again"
            raise statuses.conflict("resourcequotas", "small", why)
        complete(kind, body)
        validate(kind, body, None)
        stored = Stored(kind, body, managers)
        self._things[self.key(stored)] = stored
        return stored

    def _replace(self, live: Stored, body: Body, managers: dict[tuple[str, str], set[fields.Path]]) -> None:
        """Store a changed object. A changed spec gets a new generation; without a change nothing happens."""
        complete(live.kind, body)
        if body == live.body and managers == live.managers:
            return
        validate(live.kind, body, live.body)
        admit(live.kind, body, live.body, expandable=self.expandable)
        if _wanted(body) != _wanted(live.body) and "generation" in live.body["metadata"]:
            body["metadata"]["generation"] = live.body["metadata"]["generation"] + 1
        body["metadata"]["resourceVersion"] = self.revision
        live.body, live.managers = body, managers
        if "deletionTimestamp" in body["metadata"] and not body["metadata"].get("finalizers"):
            self._forget(live)

    def _check_namespace(self, namespace: str) -> None:
        if namespace not in self.namespaces:
            raise statuses.not_found("namespaces", namespace)


def _declared(kind: Kind, body: Body) -> None:
    """Refuse unknown fields. An apply needs the type of every field, so the real server answers with a server error."""
    if unknown := unknown_fields(body, kind.model):
        metadata = body["metadata"]
        where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {kind.api_version}, Kind={kind.name}"
        wrong = "\n".join(f".{path}: field not declared in schema" for path in unknown)
        raise statuses.Refused(500, None, f"failed to create typed patch object ({where}): {wrong}")


def _decoded(kind: Kind, body: Body, *, strict: bool = False) -> Body:
    """Refuse unknown fields if the client requests that, or drop them."""
    if strict and (unknown := unknown_fields(body, kind.model)):
        listed = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise statuses.bad_request(f"{_unfit(kind)}: strict decoding error: {listed}")
    if wrong := type_error(body, kind.model):
        raise statuses.bad_request(f"{_unfit(kind)}: {wrong}")
    for value in (body.get("data") or {}).values() if kind.name == "Secret" else ():
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise statuses.bad_request(f"{_unfit(kind)}: illegal base64 data") from error
    decoded: Body = pruned(body, kind.model)
    return decoded


def _unfit(kind: Kind) -> str:
    return f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}'


def _disputed(kind: Kind, disputed: dict[tuple[str, str], set[fields.Path]]) -> statuses.Refused:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f'conflict with "{manager}"' + (f" using {kind.api_version}" if operation == "Update" else ""),
            "field": "".join(f".{element[2:]}" for element in path),
        }
        for (manager, operation), paths in disputed.items()
        for path in sorted(paths)
    ]
    by_manager: dict[str, list[str]] = {}
    for cause in causes:
        by_manager.setdefault(cause["message"], []).append(cause["field"])
    said = "\n".join(_listed(message, paths) for message, paths in by_manager.items())
    count = "1 conflict" if len(causes) == 1 else f"{len(causes)} conflicts"
    return statuses.Refused(409, "Conflict", f"Apply failed with {count}: {said}", causes=causes)


def _listed(message: str, paths: list[str]) -> str:
    if len(paths) == 1:
        return f"{message}: {paths[0]}"
    return message.replace("conflict", "conflicts", 1) + ":" + "".join(f"\n- {path}" for path in paths)


def _settable(metadata: Body) -> Body:
    """The preconditions of an apply, which have to match the object."""
    return {name: value for name, value in metadata.items() if name != "managedFields"}


def _merge_patched(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(value) if isinstance(value, dict) else {}
    for name, inner in patch.items():
        if inner is None:
            result.pop(name, None)
        else:
            result[name] = _merge_patched(result.get(name), inner)
    return copy.deepcopy(result)


def _wanted(body: Body) -> str:
    return json.dumps(
        {name: value for name, value in body.items() if name not in ("metadata", "status")}, sort_keys=True
    )


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
