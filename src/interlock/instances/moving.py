"""An instance goes from state to state: one transaction with everything that has to be true at the same time."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from interlock.durable.recording import record
from interlock.errors import InstanceOvertaken
from interlock.idempotency import Refused, Replayed
from interlock.instances.health import HealthWatch
from interlock.instances.model import machine
from interlock.instances.names import Names
from interlock.instances.records import Instance, Records
from interlock.instances.surroundings import Surroundings
from interlock.instances.tasks import Move, Watch


class Moving:
    def __init__(self, here: Surroundings, health: HealthWatch) -> None:
        self._schema = here.schema
        self._machine = machine(here.schema)
        self._records = Records(here.schema)
        self._names = Names(here)
        self._health = health

    async def move(self, connection: Any, instance: Instance, move: Move, at: datetime) -> None:
        """`instance` is locked. A repetition changes nothing."""
        if move.event is not None:
            values = self._values(instance, move, at)
            decision = await self._machine.apply(connection, instance.id, move.event, values=values)
            if isinstance(decision, Replayed):
                return
            if isinstance(decision, Refused):
                raise InstanceOvertaken(f"The instance {instance.id} cannot {move.event}: {decision.reason}.")
            if move.event == "come_up":
                watcher = values["watcher"]
                await record(connection, self._schema, self._health.watch, watcher, Watch(instance.id, watcher))
        if move.freed:
            await self._names.free(connection, instance)
        why = move.failed
        if move.ends:
            await self._records.ask(connection, "finish", instance.id, why and why.message, why and why.code, at)
        await self._records.note(connection, instance.id, move.event or "done", at, why.message if why else "")

    async def note_parameters(self, connection: Any, id: str, parameters: Mapping[str, str], at: datetime) -> None:
        await self._records.ask(connection, "note_parameters", id, json.dumps(dict(parameters)), at)

    def _values(self, instance: Instance, move: Move, at: datetime) -> dict[str, Any]:
        """What is written with the state. Nobody watches what does not run; each time it comes up somebody new does."""
        values: dict[str, Any] = {"watcher": None, "health": "unknown", "updated_at": at}
        if move.event == "come_up":
            values["watcher"] = f"{move.task.orchestration}:health"
            values["health"] = "unknown" if move.failed else "healthy"
        if move.freed:
            values["names_freed_at"] = instance.names_freed_at or at
        if move.event == "vanish":
            values["deleted_at"] = at
        return values
