"""The gate in front of Interlock's own schema: every replica passes it at its start, and one of them migrates."""

from interlock import schema
from interlock.gate.gate import AsyncGate
from interlock.gate.times import Timing
from interlock.schema.migrations import Phase
from interlock.stores.postgres import connect


class SchemaGate:
    """The gate in front of Interlock's own schema. `gate.phase` and `gate.holder` may be read at any time."""

    def __init__(
        self, url: str, own_schema: str, *, phases: tuple[Phase, ...] = ("pre",), timing: Timing | None = None
    ) -> None:
        self._url = url
        self._own_schema = own_schema
        self._phases = phases
        # This gate keeps no rows: they would be written before the tables are those that this release expects.
        # Each migration's own transaction holds an advisory lock, so a killed migrator cannot overlap with the next.
        self.gate = AsyncGate(
            "interlock",
            url=url,
            target_schema=own_schema,
            own_schema=own_schema,
            check=self._is_current,
            recorded=False,
            timing=timing,
        )

    async def bring_up_to_date(self) -> schema.SchemaStatus:
        await self.gate.run(self._apply)
        status = await self._status()
        status.require()
        return status

    async def _is_current(self) -> bool:
        status = await self._status()
        if status.state in (schema.State.FOREIGN, schema.State.TOO_NEW):
            status.require()
        return not any(migration.step.phase in self._phases for migration in status.pending)

    async def _apply(self) -> None:
        async with await connect(self._url, application_name="interlock schema") as session:
            await schema.apply(session, self._own_schema, phases=self._phases)

    async def _status(self) -> schema.SchemaStatus:
        async with await connect(self._url, application_name="interlock schema") as session:
            return await schema.read_status(session, self._own_schema)
