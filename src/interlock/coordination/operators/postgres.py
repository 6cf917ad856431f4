"""What an operator sees and does, on PostgreSQL."""

from dataclasses import dataclass

from interlock.coordination.operators.intervention import Broken, break_lease
from interlock.coordination.operators.status import LeaseDetails, LeaseStatus, read_lease, read_leases
from interlock.coordination.operators.waits import Wait, read_waits
from interlock.stores.postgres import Session


@dataclass(frozen=True)
class PostgresOperator:
    """An `LeaseOperator`."""

    session: Session
    schema: str

    async def leases(self, prefix: str, *, only_held: bool, only_waited: bool) -> list[LeaseStatus]:
        return await read_leases(self.session, self.schema, prefix=prefix, only_held=only_held, only_waited=only_waited)

    async def lease(self, name: str) -> LeaseDetails | None:
        return await read_lease(self.session, self.schema, name)

    async def waits(self) -> list[Wait]:
        return await read_waits(self.session, self.schema)

    async def break_lease(
        self, name: str, *, immediate: bool, terminate: bool, reason: str | None, by: str
    ) -> Broken | None:
        return await break_lease(
            self.session, self.schema, name, immediate=immediate, terminate=terminate, reason=reason, by=by
        )
