"""Instances on Kubernetes.

Who may do what when. Every replica may do every verb at any time, several at once. The Secret is made with a request
that fails if there is one, so one of them decides the password. Everything else is applied: the same objects, by the
same field manager, from whoever comes first, second or again after a crash. Nothing is made while an object of one of
the names is another's, or still on its way out.

What a crash leaves behind. Whatever was made carries the instance's label, those included that Kubernetes makes from
the StatefulSet (pod, volume): `look` sees it, `ids` lists it, `provision` completes it and `remove` takes it away,
however little of it there is. Removal deletes by label and begins with the StatefulSet, because only that makes more;
`look` says absent when nothing with the label is left, and a volume goes only after the pod that uses it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, Self

from lightkube.resources.apps_v1 import StatefulSet
from lightkube.resources.core_v1 import ConfigMap, PersistentVolumeClaim, Secret, Service
from lightkube.resources.policy_v1 import PodDisruptionBudget
from lightkube.utils.quantity import parse_quantity

from interlock.errors import BadSpec, DriverError, ForeignResource, InstanceAbsent
from interlock.instances.drivers.kubernetes import configuration, credentials, objects
from interlock.instances.drivers.kubernetes.api import Api
from interlock.instances.drivers.kubernetes.belongings import KINDS, Belongings, everything
from interlock.instances.drivers.kubernetes.names import CONFIGURATION, CONTAINER, Names, belonging
from interlock.instances.drivers.kubernetes.settings import KubernetesSettings
from interlock.instances.drivers.kubernetes.sight import seen, troubled
from interlock.instances.drivers.port import Sight, Spec

_PARAMETERS = "parameters.json"


class KubernetesDriver:
    """A `Driver`. Its connections belong to the event loop that it is first used on; `close` ends them."""

    name = "kubernetes"

    def __init__(self, settings: KubernetesSettings | None = None) -> None:
        self._settings = settings or KubernetesSettings()
        self._api = Api(self._settings)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._api.close()

    async def check(self, spec: Spec) -> None:
        self._check(spec)
        await Belongings.in_the_way(self._api, Names(spec.id), adopt=self._settings.adopt)

    async def provision(self, spec: Spec) -> None:
        self._check(spec)
        names = Names(spec.id)
        there = await Belongings.in_the_way(self._api, names, adopt=self._settings.adopt)
        stateful_set = there.get(StatefulSet)
        version = self._version(spec, stateful_set)
        contents = _configured(spec.parameters)
        await self._ensure_secret(spec, there.get(Secret))
        await self._take(there.get(PersistentVolumeClaim, names.claim), spec)
        await self._api.ensure(objects.config_map(spec, contents), there.get(ConfigMap))
        await self._api.ensure(objects.headless(spec), there.get(Service, names.headless))
        await self._api.ensure(objects.service(spec, self._settings), there.get(Service))
        await self._api.ensure(objects.budget(spec), there.get(PodDisruptionBudget))
        wanted = objects.stateful_set(
            spec,
            self._settings,
            version=version,
            template_bytes=_template_bytes(stateful_set) or spec.storage_bytes or self._settings.storage_bytes,
            configured=_digest(contents),
        )
        await self._api.ensure(wanted, stateful_set)

    async def look(self, id: str) -> Sight:
        belongings = await Belongings.of(self._api, Names(id))
        sight = seen(belongings, namespace=self._api.namespace)
        if sight.state not in ("starting", "broken"):
            return sight
        uids = [thing.metadata.uid for thing in troubled(belongings)]
        warnings = await asyncio.gather(*(self._api.warnings(uid) for uid in uids))
        return seen(belongings, [one for some in warnings for one in some], namespace=self._api.namespace)

    async def start(self, id: str) -> None:
        await self._scale(id, 1)

    async def stop(self, id: str) -> None:
        await self._scale(id, 0)

    async def remove(self, id: str) -> None:
        belongings = await Belongings.of(self._api, Names(id))
        for kind in KINDS:
            for thing in belongings.things:
                if type(thing) is kind and not thing.metadata.deletionTimestamp:
                    # In the foreground: the StatefulSet stays, and is seen, until its pods have ended.
                    await self._api.delete(thing, foreground=kind is StatefulSet)

    async def password(self, id: str) -> str:
        secret = await self._ours(Secret, id)
        return credentials.unpacked(secret.data["password"])

    async def reset_password(self, id: str) -> None:
        """First the Secret, then the server is told what is in it: repeated after a crash, it ends in the same state.

        The server is told from within its pod, where no password is asked for, and only of the verifier.
        """
        pod = (await Belongings.of(self._api, Names(id))).pod
        if pod is None:
            raise DriverError(f"Instance {id} is not running, so its password cannot be changed: start it first.")
        password = credentials.new_password()
        await self._api.change(await self._ours(Secret, id), {"data": {"password": credentials.packed(password)}})
        statement = f"ALTER ROLE {credentials.USER} PASSWORD '{credentials.verifier(password)}';"
        command = ["psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", f"--username={credentials.USER}"]
        status, said = await self._api.run(pod.metadata.name, CONTAINER, command, given=statement)
        if status:
            raise DriverError(f"PostgreSQL of instance {id} did not take the new password ({said.strip()}): try again.")

    async def set_parameters(self, id: str, parameters: Mapping[str, str]) -> Literal["reloaded", "restart needed"]:
        """First the file, then the mark of what it holds: a pod that is started in between counts as not up to date."""
        configuration.check(parameters)
        config_map, stateful_set = await self._ours(ConfigMap, id), await self._ours(StatefulSet, id)
        contents = _configured(parameters)
        mark = {CONFIGURATION: _digest(contents)}
        await self._api.change(config_map, {"data": contents})
        await self._api.change(stateful_set, {"spec": {"template": {"metadata": {"annotations": mark}}}})
        pod = (await Belongings.of(self._api, Names(id))).pod
        current = pod is None or (pod.metadata.annotations or {}).get(CONFIGURATION) == mark[CONFIGURATION]
        return "reloaded" if current else "restart needed"

    async def resize(self, id: str, storage_bytes: int) -> None:
        """The server decides: it refuses to shrink, and to grow what the storage class cannot let grow."""
        claim = await self._ours(PersistentVolumeClaim, id, Names(id).claim)
        if parse_quantity(claim.spec.resources.requests["storage"]) == storage_bytes:
            return
        await self._api.change(claim, {"spec": {"resources": {"requests": {"storage": str(storage_bytes)}}}})

    async def logs(self, id: str, *, lines: int = 100, follow: bool = False) -> AsyncIterator[str]:
        pod = (await Belongings.of(self._api, Names(id))).pod
        if pod is None:
            raise InstanceAbsent(f"Instance {id} has no pod, and so no log: start it first.", id=id)
        async for line in self._api.log(pod.metadata.name, CONTAINER, lines=lines, follow=follow):
            yield line

    async def ids(self) -> Mapping[str, str]:
        return await everything(self._api)

    def _check(self, spec: Spec) -> None:
        Names(spec.id)
        configuration.check(spec.parameters)
        if spec.version is not None and spec.version not in self._settings.versions:
            raise BadSpec(f"There is no PostgreSQL {spec.version} here: use {', '.join(self._settings.versions)}.")
        if spec.storage_bytes is not None and spec.storage_bytes <= 0:
            raise BadSpec(f"A volume of {spec.storage_bytes} bytes cannot be made: ask for more than 0.")

    def _version(self, spec: Spec, stateful_set: Any | None) -> str:
        """What is there keeps its version: another one would not start on its data."""
        there = (stateful_set.metadata.labels or {}).get(objects.VERSION) if stateful_set is not None else None
        if there is None:
            return spec.version or self._settings.versions[-1]
        if spec.version not in (None, there):
            raise BadSpec(
                f"Instance {spec.id} is of version {there}, and cannot be made one of {spec.version}: "
                "dump it and restore it into a new one."
            )
        return str(there)

    async def _ensure_secret(self, spec: Spec, there: Any | None) -> None:
        """What is in it stays: only what it lacks is added."""
        names = Names(spec.id)
        hosts = [names.base, f"{names.base}.{self._api.namespace}", f"{names.base}.{self._api.namespace}.svc"]
        contents = credentials.contents(credentials.new_password(), [*hosts, *filter(None, [spec.dns_name])])
        if there is None:
            if await self._api.create(objects.secret(spec, contents)) is None:
                await self._ours(Secret, spec.id)  # another replica made it for this instance, or we stop here
            return
        missing = {name: value for name, value in contents.items() if name not in (there.data or {})}
        if missing:
            await self._api.change(there, {"data": missing})
        await self._take(there, spec)

    async def _take(self, there: Any | None, spec: Spec) -> None:
        """Adopt what is not applied as a whole, because what is in it is kept."""
        if there is not None and belonging(there, spec.id) != "ours":
            await self._api.change(there, {"metadata": {"labels": Names(spec.id).labels}})

    async def _scale(self, id: str, replicas: int) -> None:
        await self._api.change(await self._ours(StatefulSet, id), {"spec": {"replicas": replicas}})

    async def _ours(self, kind: Any, id: str, name: str | None = None) -> Any:
        names = Names(id)
        found = await self._api.find(kind, name or names.base)
        if found is None or found.metadata.deletionTimestamp:
            raise InstanceAbsent(
                f"Instance {id} has no {kind.__name__} in namespace {self._api.namespace}: provision it first.", id=id
            )
        if belonging(found, id) != "ours":
            raise ForeignResource(
                f"{kind.__name__} {found.metadata.name} in namespace {self._api.namespace} is not instance {id}'s: "
                "delete it, or rename it, and try again."
            )
        return found


def _configured(parameters: Mapping[str, str]) -> dict[str, str]:
    return {**configuration.files(parameters), _PARAMETERS: json.dumps(dict(parameters), sort_keys=True)}


def _digest(contents: Mapping[str, str]) -> str:
    return configuration.digest(contents)


def _template_bytes(stateful_set: Any | None) -> int | None:
    templates = stateful_set.spec.volumeClaimTemplates if stateful_set is not None else None
    if not templates:
        return None
    size = parse_quantity(templates[0].spec.resources.requests["storage"])
    return int(size) if size is not None else None
