"""The inventory of an instance: all its objects in the cluster."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from lightkube.resources.apps_v1 import StatefulSet
from lightkube.resources.core_v1 import ConfigMap, PersistentVolumeClaim, Pod, Secret, Service
from lightkube.resources.policy_v1 import PodDisruptionBudget

from interlock.errors import BeingRemoved, ForeignResource, InstanceAbsent
from interlock.instances.drivers.kubernetes.api import Api
from interlock.instances.drivers.kubernetes.names import INSTANCE, MANAGED_BY, MANAGER, NAME, ObjectNames, ownership

# In the order of removal: after the StatefulSet is deleted, nothing recreates pods or volumes.
KINDS: tuple[Any, ...] = (StatefulSet, Pod, PersistentVolumeClaim, Service, PodDisruptionBudget, ConfigMap, Secret)


@dataclass(frozen=True, slots=True)
class Inventory:
    """The objects with the instance's label, or, before the creation, the objects with its names."""

    names: ObjectNames
    resources: tuple[Any, ...]

    @classmethod
    async def of(cls, api: Api, names: ObjectNames) -> Self:
        found = await asyncio.gather(*(api.labelled(kind, names.labels) for kind in KINDS))
        return cls(names, tuple(resource for resources in found for resource in resources))

    @classmethod
    async def by_name(cls, api: Api, names: ObjectNames, *, adopt: bool) -> Self:
        """Returns the objects with the names of this instance's objects.

        Raises ForeignResource if one of them is foreign.

        A volume counts too: the StatefulSet would use it, with any data on it.
        """
        wanted: list[tuple[Any, str]]
        wanted = [(kind, names.base) for kind in (StatefulSet, Service, PodDisruptionBudget, ConfigMap, Secret)]
        wanted += [(Service, names.headless), (PersistentVolumeClaim, names.claim), (Pod, names.pod)]
        found = await asyncio.gather(*(api.find(kind, name) for kind, name in wanted))
        resources = tuple(resource for resource in found if resource is not None)
        for resource in resources:
            _check(resource, names.id, api.namespace, adopt=adopt)
        return cls(names, resources)

    def get(self, kind: Any, name: str | None = None) -> Any | None:
        named = name or self.names.base
        return next((one for one in self.resources if type(one) is kind and one.metadata.name == named), None)

    @property
    def pod(self) -> Any | None:
        return self.get(Pod, self.names.pod)

    @property
    def terminating(self) -> tuple[Any, ...]:
        """The objects that are being deleted and still exist."""
        return tuple(resource for resource in self.resources if resource.metadata.deletionTimestamp)


async def everything(api: Api) -> Mapping[str, str]:
    """Returns id → name of every instance with at least one object."""
    labels = {MANAGED_BY: MANAGER, INSTANCE: None}
    found = await asyncio.gather(*(api.labelled(kind, labels) for kind in KINDS))
    return {
        resource.metadata.labels[INSTANCE]: (resource.metadata.annotations or {}).get(NAME, "")
        for resources in found
        for resource in resources
    }


async def required(api: Api, kind: Any, id: str, name: str | None = None) -> Any:
    """Returns the object of that kind. Raises InstanceAbsent if it does not exist, ForeignResource if it is foreign."""
    resource = await api.find(kind, name or ObjectNames(id).base)
    if resource is None or resource.metadata.deletionTimestamp:
        raise InstanceAbsent(
            f"Instance {id} has no {kind.__name__} in namespace {api.namespace}: provision it first.", id=id
        )
    _check(resource, id, api.namespace, adopt=False)
    return resource


def describe(resource: Any) -> str:
    return f"{type(resource).__name__} {resource.metadata.name}"


def _check(resource: Any, id: str, namespace: str, *, adopt: bool) -> None:
    owner = ownership(resource, id)
    if owner == "foreign" or (owner == "unowned" and not adopt):
        reason = "belongs to another instance" if owner == "foreign" else "was not created by Interlock"
        raise ForeignResource(
            f"{describe(resource)} in namespace {namespace} exists and {reason}: delete or rename it, and try again."
        )
    if resource.metadata.deletionTimestamp and not isinstance(resource, Pod):
        raise BeingRemoved(f"{describe(resource)} in namespace {namespace} is still being removed: try again later.")
