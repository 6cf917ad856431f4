"""What may be asked of instances. Each request is part of the caller's transaction: it is there if that commits.

Who may do what. A request locks the record. While an orchestration works on the instance, nothing but `delete` is
taken: that names itself as the one that works on it, so that no step of the other writes any more, and cancels it.
Whoever works says in the record when it ends; one that has ended without that, with its clean-up (which somebody
cancelled, or the engine gave up), works no more, and keeps nobody out.

What a crash leaves behind: nothing, or what was committed; the recorded orchestration is started by any replica.
"""

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interlock.durable import recording
from interlock.durable.declared import Orchestration
from interlock.durable.outcome import is_unfinished, read_outcome
from interlock.errors import (
    BadSpec,
    IllegalTransition,
    InstanceBusy,
    InstanceUnknown,
    NotSupported,
    OnceConflict,
)
from interlock.idempotency import Refused
from interlock.instances import model
from interlock.instances.drivers.port import Spec
from interlock.instances.names import Names
from interlock.instances.orchestrations import Lifecycle
from interlock.instances.records import Instance, Records
from interlock.instances.tasks import Task


class Instances:
    """`records` is for reading. What is asked for has ended when the record's orchestration has."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self.lifecycle = lifecycle
        self._here = lifecycle.here
        self._machine = model.machine(self._here.schema)
        self._names = Names(self._here)
        self.records = Records(self._here.schema)

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
        parameters: Mapping[str, str | int | float | bool] | None = None,
        tags: Mapping[str, str] | None = None,
        backup: str | None = None,
    ) -> Instance:
        """Raises `NameTaken`, or what is wrong with the request: roll back then.

        `id` is for whoever may have to repeat the request: what was made under it is given, and nothing made again.
        `backup`: see `Backups.restore`.
        """
        self._here.driver(driver)
        spec = Spec(
            id=id or str(uuid.uuid4()),
            name=model.instance_name(name),
            version=model.major_version(version),
            storage_bytes=None if storage is None else model.storage_bytes(storage),
            parameters=model.parameters(parameters or {}),
            dns_name=self._here.dns.full_name(dns_name) if dns_name else None,
            tags=model.tags(tags or {}),
        )
        if id and (made := await self._made(connection, spec)):
            return made
        await self._names.claim(connection, spec)
        how = self.lifecycle.create if backup is None else self.lifecycle.create_from
        task = Task(spec.id, _new_id(spec.id, _verb(how)), backup=backup)
        await self.records.insert(connection, spec, driver, task.orchestration)
        await self._record(connection, how, task)
        return await self.records.read(connection, spec.id)

    async def delete(self, connection: Any, id: str) -> Instance:
        """Whatever is going on. Of one that is being deleted nothing is changed."""
        instance = await self._locked(connection, id)
        _check_there(instance)
        if instance.state == "deleting" and instance.working:
            return instance
        if instance.working:
            await recording.cancel(connection, self._here.schema, instance.orchestration, "The instance is deleted.")
        after = instance.orchestration if instance.working else None
        return await self._begin(connection, instance, "delete", self.lifecycle.delete, after=after)

    async def abandon(self, connection: Any, id: str) -> Instance:
        """Of one that could not be removed, because where it is cannot be reached any more: its names are freed, and
        what there is of it stays where it is. If that can be reached again, it is found as drift."""
        instance = await self.idle(connection, id)
        _check_there(instance)
        if instance.state != "failed":
            raise IllegalTransition(
                f"The instance {instance.name} is {instance.state}: delete it, and abandon it only if that fails.",
                state=instance.state,
                event="abandon",
            )
        return await self._begin(connection, instance, "delete", self.lifecycle.abandon)

    async def stop(self, connection: Any, id: str) -> Instance:
        return await self._begin(connection, await self.idle(connection, id), "stop", self.lifecycle.stop)

    async def start(self, connection: Any, id: str) -> Instance:
        return await self._begin(connection, await self.idle(connection, id), "start", self.lifecycle.start)

    async def restart(self, connection: Any, id: str) -> Instance:
        return await self._begin(connection, await self.idle(connection, id), "restart", self.lifecycle.restart)

    async def reset_password(self, connection: Any, id: str) -> Instance:
        """The new one is the driver's to tell."""
        return await self._begin(connection, await self._running(connection, id), None, self.lifecycle.reset_password)

    async def set_parameters(
        self, connection: Any, id: str, parameters: Mapping[str, str | int | float | bool], after: str | None = None
    ) -> Instance:
        """`parameters` are all that are wanted. If they need a restart, it is restarted, unless it is stopped.

        `after` is the orchestration that the record named when they were made up from what it said. Raises InstanceBusy
        if there was another since.
        """
        checked = model.parameters(parameters)
        instance = await self._at_rest(connection, id, "be changed")
        if after is not None and instance.orchestration != after:
            raise InstanceBusy(
                f"{instance.orchestration} has worked on the instance {instance.name} since: read it, and ask again.",
                orchestration=instance.orchestration,
            )
        return await self._begin(connection, instance, None, self.lifecycle.set_parameters, parameters=checked)

    async def resize(self, connection: Any, id: str, storage: str | int) -> Instance:
        """More storage, never less. Raises `NotSupported` where the driver cannot."""
        wanted = model.storage_bytes(storage)
        instance = await self._at_rest(connection, id, "be resized")
        if not self._here.driver(instance.driver).can_resize:
            raise NotSupported(
                f"The driver {instance.driver} cannot give the instance {instance.name} more storage: restore a backup "
                "of it where there is more."
            )
        if instance.storage_bytes is not None and wanted < instance.storage_bytes:
            raise BadSpec(
                f"The instance {instance.name} has {instance.storage_bytes} bytes of storage, and {wanted} are less: "
                "storage can only grow."
            )
        return await self._begin(connection, instance, None, self.lifecycle.resize, storage_bytes=wanted)

    async def restore(self, connection: Any, id: str, backup: str, *, key: str | None = None) -> Instance:
        """See `Backups.restore_into`."""
        instance = await self._running(connection, id)
        return await self._begin(connection, instance, None, self.lifecycle.restore, key=key, backup=backup)

    async def asked_before(self, connection: Any, id: str, key: str) -> Instance | None:
        """The instance, locked, if a restore into it was asked for under that key."""
        instance = await self.records.lock(connection, id)
        before = _new_id(id, _verb(self.lifecycle.restore), key)
        return instance if await read_outcome(connection, self._here.schema, before) else None

    async def mend(self, connection: Any, id: str) -> Instance:
        """It is brought to be as the record says, up or down. If nothing of it is left, it ends as `failed`."""
        instance = await self._at_rest(connection, id, "be mended")
        return await self._begin(connection, instance, None, self.lifecycle.mend)

    async def cancel(self, connection: Any, id: str) -> Instance:
        """What works on it is cut short, and its clean-up says how the instance is then: see `orchestrations`."""
        instance = await self._locked(connection, id)
        if not instance.working:
            raise IllegalTransition(
                f"Nothing works on the instance {instance.name}, which is {instance.state}: leave it as it is.",
                state=instance.state,
                event="cancel",
            )
        await recording.cancel(connection, self._here.schema, instance.orchestration, "that was asked for")
        [[at]] = await self.records.ask(connection, "clock")
        await self.records.note(connection, id, "cancel asked for", at)
        return instance

    async def _made(self, connection: Any, spec: Spec) -> Instance | None:
        try:
            made = await self.records.read(connection, spec.id)
        except InstanceUnknown:
            return None
        if made.name != spec.name:
            raise OnceConflict(f"The instance {made.name} was made under that key: use a new one.", key=spec.id)
        return made

    async def _begin(
        self,
        connection: Any,
        instance: Instance,
        event: model.Event | None,
        orchestration: Orchestration[Task, Any],
        *,
        key: str | None = None,
        **more: Any,
    ) -> Instance:
        verb = _verb(orchestration)
        if event is not None:
            values = {"watcher": None, "health": "unknown"}
            decision = await self._machine.apply(connection, instance.id, event, values=values)
            if isinstance(decision, Refused):
                raise _illegal(instance, verb)
            if instance.watcher:
                await recording.cancel(connection, self._here.schema, instance.watcher, f"{verb} was asked for.")
        task = Task(instance.id, _new_id(instance.id, verb, key), **more)
        [[at]] = await self.records.ask(connection, "hand_over", instance.id, task.orchestration)
        await self.records.note(connection, instance.id, f"{verb} asked for", at)
        await self._record(connection, orchestration, task)
        return await self.records.read(connection, instance.id)

    async def _record(self, connection: Any, orchestration: Orchestration[Task, Any], task: Task) -> None:
        await recording.record(connection, self._here.schema, orchestration, task.orchestration, task)

    async def _locked(self, connection: Any, id: str) -> Instance:
        """`working` is whether anything really does."""
        instance = await self.records.lock(connection, id)
        if instance.working:
            is_working = await is_unfinished(connection, self._here.schema, instance.orchestration)
            return replace(instance, working=is_working)
        return instance

    async def idle(self, connection: Any, id: str) -> Instance:
        """Locked, and nothing works on it. Raises `InstanceBusy`."""
        instance = await self._locked(connection, id)
        if instance.working:
            raise InstanceBusy(
                f"The instance {instance.name} is {instance.state}, and {instance.orchestration} works on it: "
                "wait until that has ended.",
                orchestration=instance.orchestration,
            )
        return instance

    async def _at_rest(self, connection: Any, id: str, verb: str) -> Instance:
        instance = await self.idle(connection, id)
        if instance.state not in ("running", "stopped"):
            raise _illegal(instance, verb)
        return instance

    async def _running(self, connection: Any, id: str) -> Instance:
        instance = await self.idle(connection, id)
        if instance.state != "running":
            raise _illegal(instance, "be changed")
        return instance


def _verb(orchestration: Orchestration[Task, Any]) -> str:
    return orchestration.name.rpartition(".")[2]


def _new_id(instance: str, verb: str, key: str | None = None) -> str:
    """The same each time for a key."""
    return f"instance-{instance}-{verb}-{key or uuid.uuid4().hex[:8]}"


def _check_there(instance: Instance) -> None:
    if instance.state == "deleted":
        raise InstanceUnknown(f"The instance {instance.name} ({instance.id}) is deleted.")


def _illegal(instance: Instance, verb: str) -> IllegalTransition:
    return IllegalTransition(
        f"The instance {instance.name} is {instance.state} and cannot {verb}: see what may be asked for in that state.",
        state=instance.state,
        event=verb,
    )
