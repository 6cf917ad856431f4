"""Everything that there is of an instance."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from lightkube.resources.apps_v1 import StatefulSet
from lightkube.resources.core_v1 import ConfigMap, PersistentVolumeClaim, Pod, Secret, Service
from lightkube.resources.policy_v1 import PodDisruptionBudget

from interlock.errors import BeingRemoved, ForeignResource, InstanceAbsent
from interlock.instances.drivers.kubernetes.api import Api
from interlock.instances.drivers.kubernetes.names import INSTANCE, MANAGED_BY, MANAGER, NAME, ObjectNames, belonging

# In the order of removal: nothing makes pods or volumes again once the StatefulSet is on its way out.
KINDS: tuple[Any, ...] = (StatefulSet, Pod, PersistentVolumeClaim, Service, PodDisruptionBudget, ConfigMap, Secret)


@dataclass(frozen=True, slots=True)
class Belongings:
    """Those that carry the instance's label, or, before anything is made, those that have its names."""

    names: ObjectNames
    things: tuple[Any, ...]

    @classmethod
    async def of(cls, api: Api, names: ObjectNames) -> Self:
        found = await asyncio.gather(*(api.labelled(kind, names.labels) for kind in KINDS))
        return cls(names, tuple(thing for things in found for thing in things))

    @classmethod
    async def in_the_way(cls, api: Api, names: ObjectNames, *, adopt: bool) -> Self:
        """What has the names of this instance's objects. Raises ForeignResource for the first that is another's.

        A volume counts too: the StatefulSet would take it as its own, whosever data are on it.
        """
        wanted: list[tuple[Any, str]]
        wanted = [(kind, names.base) for kind in (StatefulSet, Service, PodDisruptionBudget, ConfigMap, Secret)]
        wanted += [(Service, names.headless), (PersistentVolumeClaim, names.claim), (Pod, names.pod)]
        found = await asyncio.gather(*(api.find(kind, name) for kind, name in wanted))
        things = tuple(thing for thing in found if thing is not None)
        for thing in things:
            _check(thing, names.id, api.namespace, adopt=adopt)
        return cls(names, things)

    def get(self, kind: Any, name: str | None = None) -> Any | None:
        named = name or self.names.base
        return next((one for one in self.things if type(one) is kind and one.metadata.name == named), None)

    @property
    def pod(self) -> Any | None:
        return self.get(Pod, self.names.pod)

    @property
    def leaving(self) -> tuple[Any, ...]:
        """Those that Kubernetes was told to delete and that are still there."""
        return tuple(thing for thing in self.things if thing.metadata.deletionTimestamp)


async def everything(api: Api) -> Mapping[str, str]:
    """id → name of every instance of which anything is there."""
    labels = {MANAGED_BY: MANAGER, INSTANCE: None}
    found = await asyncio.gather(*(api.labelled(kind, labels) for kind in KINDS))
    return {
        thing.metadata.labels[INSTANCE]: (thing.metadata.annotations or {}).get(NAME, "")
        for things in found
        for thing in things
    }


async def required(api: Api, kind: Any, id: str, name: str | None = None) -> Any:
    """The one object of that kind. Raises InstanceAbsent without it, ForeignResource if it is another's."""
    thing = await api.find(kind, name or ObjectNames(id).base)
    if thing is None or thing.metadata.deletionTimestamp:
        raise InstanceAbsent(
            f"Instance {id} has no {kind.__name__} in namespace {api.namespace}: provision it first.", id=id
        )
    _check(thing, id, api.namespace, adopt=False)
    return thing


def described(thing: Any) -> str:
    return f"{type(thing).__name__} {thing.metadata.name}"


def _check(thing: Any, id: str, namespace: str, *, adopt: bool) -> None:
    whose = belonging(thing, id)
    if whose == "another's" or (whose == "nobody's" and not adopt):
        owner = "belongs to another instance" if whose == "another's" else "was not made by Interlock"
        raise ForeignResource(
            f"{described(thing)} in namespace {namespace} is there already and {owner}: "
            "delete it, or rename it, and try again."
        )
    if thing.metadata.deletionTimestamp and not isinstance(thing, Pod):
        raise BeingRemoved(f"{described(thing)} in namespace {namespace} is still being removed: try again later.")
