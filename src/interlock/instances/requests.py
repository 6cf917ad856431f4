"""Requests for instances; see `interlock.aggregate.requests`. Only `delete` takes over from running work."""

import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

from interlock.aggregate.events import INTERLOCK
from interlock.aggregate.record import Task
from interlock.aggregate.requests import Requests
from interlock.durable import requests
from interlock.durable.declarations import Orchestration
from interlock.durable.status import read_outcome
from interlock.errors import BadSpec, IllegalTransition, NotSupported
from interlock.instances import model
from interlock.instances.drivers.port import Spec
from interlock.instances.names import InstanceNames
from interlock.instances.orchestrations import InstanceLifecycle
from interlock.instances.records import InstanceRecord, InstanceRecords
from interlock.instances.tasks import Resize, Restoration, SetParameters

_UNWATCHED = {"watcher": None, "health": "unknown"}

Parameters = Mapping[str, str | int | float | bool]


class Instances(Requests[InstanceRecord]):
    records: InstanceRecords

    def __init__(self, lifecycle: InstanceLifecycle) -> None:
        super().__init__(InstanceRecords(lifecycle.context.schema))
        self.lifecycle = lifecycle
        self._context = lifecycle.context
        self._names = InstanceNames(self._context)

    async def create(
        self,
        connection: Any,
        name: str,
        *,
        driver: str,
        id: str | None = None,
        dns_name: str | None = None,
        version: str | int | None = None,
        storage: str | int | None = None,
        parameters: Parameters | None = None,
        tags: Mapping[str, str] | None = None,
        backup: str | None = None,
        by: str = INTERLOCK,
    ) -> InstanceRecord:
        """Create an instance.

        If this raises `NameTaken` or the error of an invalid request, the caller has to roll back.

        A caller that may have to repeat the request gives an `id`: an instance that was created under that id is
        returned, and no other one is created. For `backup` see `Backups.restore`.
        """
        self._context.driver(driver)
        spec = Spec(
            id=id or str(uuid.uuid4()),
            name=model.instance_name(name),
            version=model.major_version(version),
            storage_bytes=None if storage is None else model.storage_bytes(storage),
            parameters=model.parameters(parameters or {}),
            dns_name=self._context.dns.full_name(dns_name) if dns_name else None,
            tags=model.tags(tags or {}),
        )
        if earlier := await self.find_repeated(connection, id, name=spec.name):
            return earlier
        await self._names.claim(connection, spec)
        columns = {
            "name": spec.name,
            "dns_name": spec.dns_name,
            "driver": driver,
            "version": spec.version,
            "storage_bytes": spec.storage_bytes,
            "parameters": spec.parameters,
            "tags": spec.tags,
        }
        if backup is None:
            return await self.insert(connection, spec.id, columns, self.lifecycle.create, by=by)
        task = Restoration(backup=backup)
        return await self.insert(connection, spec.id, columns, self.lifecycle.create_from, task, by=by)

    async def delete(self, connection: Any, id: str, *, by: str = INTERLOCK) -> InstanceRecord:
        """Delete the instance, even while other work runs. An instance that is being deleted is returned unchanged."""
        return await self.begin_deletion(
            connection, id, self.lifecycle.delete, by=by, columns=_UNWATCHED, check=partial(self._end_watch, connection)
        )

    async def abandon(self, connection: Any, id: str, *, by: str = INTERLOCK) -> InstanceRecord:
        """Free the names of an instance that could not be removed because its system is unreachable for good.

        The remains of the instance stay where they are. If the system becomes reachable again, the drift check finds
        them.
        """
        await self.lock_present(connection, id)
        instance = await self.lock_idle(connection, id)
        if instance.state != "failed":
            raise IllegalTransition(
                f"The instance {instance.name} is {instance.state}: delete it, and abandon it only if the "
                "deletion fails.",
                state=instance.state,
                event="abandon",
            )
        return await self._begin(connection, instance, "delete", self.lifecycle.abandon, by=by)

    async def stop(self, connection: Any, id: str, *, by: str = INTERLOCK) -> InstanceRecord:
        return await self._begin(connection, await self.lock_idle(connection, id), "stop", self.lifecycle.stop, by=by)

    async def start(self, connection: Any, id: str, *, by: str = INTERLOCK) -> InstanceRecord:
        return await self._begin(connection, await self.lock_idle(connection, id), "start", self.lifecycle.start, by=by)

    async def restart(self, connection: Any, id: str, *, by: str = INTERLOCK) -> InstanceRecord:
        return await self._begin(
            connection, await self.lock_idle(connection, id), "restart", self.lifecycle.restart, by=by
        )

    async def reset_password(self, connection: Any, id: str, *, by: str = INTERLOCK) -> InstanceRecord:
        """Give the instance a new password, which the driver generates, and returns on request."""
        instance = await self._lock_idle_in(connection, id, "be changed", "running")
        return await self.begin(connection, instance, None, self.lifecycle.reset_password, by=by)

    async def set_parameters(
        self, connection: Any, id: str, parameters: Parameters, *, by: str = INTERLOCK
    ) -> InstanceRecord:
        """Replace all parameters by these. A running instance is restarted if a changed parameter needs it."""
        task = SetParameters(parameters=model.parameters(parameters))
        instance = await self._lock_idle_in(connection, id, "be changed", "running", "stopped")
        return await self.begin(connection, instance, None, self.lifecycle.set_parameters, task, by=by)

    async def resize(self, connection: Any, id: str, storage: str | int, *, by: str = INTERLOCK) -> InstanceRecord:
        """Grow the storage; it never shrinks. Raises `NotSupported` if the driver cannot resize."""
        wanted = model.storage_bytes(storage)
        instance = await self._lock_idle_in(connection, id, "be resized", "running", "stopped")
        if not self._context.driver(instance.driver).can_resize:
            raise NotSupported(
                f"The driver {instance.driver} cannot give the instance {instance.name} more storage: restore a backup "
                "of it into a larger instance."
            )
        if instance.storage_bytes is not None and wanted < instance.storage_bytes:
            raise BadSpec(
                f"The instance {instance.name} has {instance.storage_bytes} bytes of storage, and {wanted} are less: "
                "ask for more, because storage can only grow."
            )
        task = Resize(storage_bytes=wanted)
        return await self.begin(connection, instance, None, self.lifecycle.resize, task, by=by)

    async def restore(
        self, connection: Any, id: str, backup: str, *, key: str | None = None, by: str = INTERLOCK
    ) -> InstanceRecord:
        """See `Backups.restore_into`."""
        instance = await self._lock_idle_in(connection, id, "be changed", "running")
        task = Restoration(backup=backup)
        return await self.begin(connection, instance, None, self.lifecycle.restore, task, by=by, key=key)

    async def requested_before(self, connection: Any, id: str, key: str) -> InstanceRecord | None:
        """Lock the instance, and return it if a restore into it was requested under that key before."""
        instance = await self.records.lock(connection, id)
        before = self.new_id(id, self.lifecycle.restore, key)
        return instance if await read_outcome(connection, self._context.schema, before) else None

    async def mend(self, connection: Any, id: str, *, by: str = INTERLOCK) -> InstanceRecord:
        """Bring the instance into the state of its record, up or down.

        If nothing of it exists, its state becomes `failed`.
        """
        instance = await self._lock_idle_in(connection, id, "be mended", "running", "stopped")
        return await self.begin(connection, instance, None, self.lifecycle.mend, by=by)

    async def _begin(
        self,
        connection: Any,
        instance: InstanceRecord,
        event: model.Event,
        orchestration: Orchestration[Task, None],
        *,
        by: str,
    ) -> InstanceRecord:
        result = await self.begin(connection, instance, event, orchestration, by=by, columns=_UNWATCHED)
        await self._end_watch(connection, instance)
        return result

    async def _end_watch(self, connection: Any, instance: InstanceRecord) -> None:
        """Cancel the watcher, before a change of state."""
        if instance.watcher:
            reason = f"The instance does not stay {instance.state}."
            await requests.cancel(connection, self._context.schema, instance.watcher, reason)

    async def _lock_idle_in(self, connection: Any, id: str, verb: str, *states: model.State) -> InstanceRecord:
        instance = await self.lock_idle(connection, id)
        if instance.state not in states:
            raise self.records.illegal(instance, verb)
        return instance
