"""The driver `kubernetes`.

Permissions: every replica may run every operation at any time, concurrently. The Secret is created by a request that
fails if there is one, so one replica decides the password. All other objects are applied with the same field manager,
so a repetition by any replica writes the same objects. Nothing is created while an object with one of the names is
foreign, or still being removed.

Crashes: every object carries the instance's label, including the pod and the volume that Kubernetes creates from the
StatefulSet. So any remains are found: `observe` sees them, `ids` lists them, `provision` completes them, and `remove`
removes them. The removal deletes by label and begins with the StatefulSet, because only that creates more objects.
`observe` returns absent when no object with the label exists, and a volume is removed only after the pod that uses it.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

from lightkube.resources.apps_v1 import StatefulSet
from lightkube.resources.core_v1 import ConfigMap, PersistentVolumeClaim, Secret
from lightkube.utils.quantity import parse_quantity

from interlock.errors import DriverError, InstanceAbsent, NotSupported
from interlock.instances.drivers.kubernetes import creation, credentials, postgresql_conf
from interlock.instances.drivers.kubernetes.api import Api
from interlock.instances.drivers.kubernetes.inventory import KINDS, Inventory, everything, required
from interlock.instances.drivers.kubernetes.names import CONFIGURATION, CONTAINER, NAME, ObjectNames
from interlock.instances.drivers.kubernetes.observation import is_ready, is_up_to_date, observed_state, with_warnings
from interlock.instances.drivers.kubernetes.settings import KubernetesSettings
from interlock.instances.drivers.owner import new_password
from interlock.instances.drivers.port import Observation, Spec
from interlock.tls.certificate import Certificate


class KubernetesDriver:
    """A `Driver`. The constructor touches nothing."""

    name = "kubernetes"
    can_resize = True
    can_use_certificate = False

    def __init__(self, settings: KubernetesSettings | None = None) -> None:
        self._settings = settings or KubernetesSettings()

    async def check(self, spec: Spec) -> None:
        creation.check(spec, self._settings)
        async with self._api() as api:
            await creation.existing_objects(api, spec, self._settings)

    async def provision(self, spec: Spec) -> None:
        creation.check(spec, self._settings)
        async with self._api() as api:
            await creation.provision(api, spec, self._settings)

    async def observe(self, id: str) -> Observation:
        async with self._api() as api:
            inventory = await Inventory.of(api, ObjectNames(id))
            observation = observed_state(inventory, namespace=api.namespace)
            if observation.state not in ("starting", "broken"):
                return observation
            warnings = await asyncio.gather(
                *(api.warnings(resource.metadata.uid) for resource in with_warnings(inventory))
            )
            return observed_state(inventory, [one for some in warnings for one in some], namespace=api.namespace)

    async def start(self, id: str) -> None:
        """Start the instance's pod.

        A pod that is not ready and has earlier parameters is deleted, so that a new one starts.
        """
        await self._scale(id, 1)
        async with self._api() as api:
            inventory = await Inventory.of(api, ObjectNames(id))
            pod = inventory.pod
            if pod is not None and not is_ready(pod) and not is_up_to_date(pod, inventory.get(StatefulSet)):
                await api.delete(pod)

    async def stop(self, id: str) -> None:
        await self._scale(id, 0)

    async def remove(self, id: str) -> None:
        """Delete the StatefulSet first, then list and delete the other objects: until then, it may create more of them.

        The StatefulSet is deleted in the foreground: it stays visible until its pods have ended.
        """
        async with self._api() as api:
            for stateful_set in await api.labelled(StatefulSet, ObjectNames(id).labels):
                await api.delete(stateful_set, foreground=True)
            resources = (await Inventory.of(api, ObjectNames(id))).resources
            for resource in sorted(resources, key=lambda one: KINDS.index(type(one))):
                if type(resource) is not StatefulSet:
                    await api.delete(resource)

    async def password(self, id: str) -> str:
        async with self._api() as api:
            password = credentials.entry(await required(api, Secret, id), credentials.PASSWORD)
        if password is None:
            raise DriverError(f"The Secret of instance {id} has no password in it: reset the password.")
        return password

    async def reset_password(self, id: str) -> None:
        """Write the new password down, set it in the server, then show it. If the server fails, the old password stays.

        A repetition after a crash, or a concurrent request, continues with the password that was written down. The
        password is set from inside the pod, where no password is needed.
        """
        async with self._api() as api:
            secret = await required(api, Secret, id)
            pod = (await Inventory.of(api, ObjectNames(id))).pod
            if pod is None:
                raise DriverError(f"Instance {id} is not running, so its password cannot be changed: start it first.")
            new = credentials.entry(secret, credentials.NEXT)
            if new is None:
                new = new_password()
                written = {credentials.NEXT: credentials.packed(new)}
                await api.change(secret, {"data": written}, only_if_unchanged=True)
            statement = credentials.new_password_statement(secret.metadata.annotations[NAME], new)
            status, output = await api.run(pod.metadata.name, CONTAINER, credentials.PSQL, given=statement)
            if status:
                raise DriverError(
                    f"PostgreSQL of instance {id} did not accept the new password ({output.strip()}): try again."
                )
            shown = {credentials.PASSWORD: credentials.packed(new), credentials.NEXT: None}
            await api.change(secret, {"data": shown})

    async def set_parameters(self, id: str, parameters: Mapping[str, str]) -> Literal["reloaded", "restart needed"]:
        """Write the file first, then its digest: a pod that starts in between counts as outdated."""
        postgresql_conf.check(parameters)
        contents = postgresql_conf.files(parameters)
        mark = {CONFIGURATION: postgresql_conf.digest(contents)}
        async with self._api() as api:
            config_map, stateful_set = await required(api, ConfigMap, id), await required(api, StatefulSet, id)
            await api.change(config_map, {"data": contents})
            await api.change(stateful_set, {"spec": {"template": {"metadata": {"annotations": mark}}}})
            pod = (await Inventory.of(api, ObjectNames(id))).pod
        current = pod is None or (pod.metadata.annotations or {}).get(CONFIGURATION) == mark[CONFIGURATION]
        return "reloaded" if current else "restart needed"

    async def resize(self, id: str, storage_bytes: int) -> None:
        """Grow the volume.

        The API server refuses to shrink it, or to grow it if its storage class does not support growth.
        """
        async with self._api() as api:
            claim = await required(api, PersistentVolumeClaim, id, ObjectNames(id).claim)
            if parse_quantity(claim.spec.resources.requests["storage"]) != storage_bytes:
                wanted: dict[str, Any] = {"resources": {"requests": {"storage": str(storage_bytes)}}}
                await api.change(claim, {"spec": wanted})

    async def use_certificate(self, id: str, certificate: Certificate | None) -> None:
        raise NotSupported(
            "An instance of the driver kubernetes always serves its own certificate: use that certificate."
        )

    async def logs(self, id: str, *, lines: int = 100, follow: bool = False) -> AsyncIterator[str]:
        async with self._api() as api:
            pod = (await Inventory.of(api, ObjectNames(id))).pod
            if pod is None:
                raise InstanceAbsent(f"Instance {id} has no pod, and so no log: start it first.", id=id)
            async for line in api.log(pod.metadata.name, CONTAINER, lines=lines, follow=follow):
                yield line

    async def ids(self) -> Mapping[str, str]:
        async with self._api() as api:
            return await everything(api)

    async def _scale(self, id: str, replicas: int) -> None:
        async with self._api() as api:
            await api.change(await required(api, StatefulSet, id), {"spec": {"replicas": replicas}})

    def _api(self) -> Api:
        return Api(self._settings)
