"""The status of gates: holder, run, progress and waiters. Reading the status changes nothing at a gate."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from interlock import errors, schema
from interlock.gate.name import GateName
from interlock.gate.progress import gate_queries
from interlock.stores.postgres import AdvisoryKey, Session
from interlock.stores.postgres.advisory import HOLDERS
from interlock.stores.postgres.session import Row


@dataclass(frozen=True)
class GateSession:
    """The session of a gate's holder or of a waiter. PostgreSQL may hide the `name` of another role's session."""

    pid: int
    name: str | None
    since: datetime | None


@dataclass(frozen=True)
class GateStatus:
    """`run` is the newest run, `holder` the session that has the lock now.

    An open run without a holder had an unclean end.
    """

    gate: str
    lock: AdvisoryKey
    run: dict[str, Any]
    holder: GateSession | None
    waiting: tuple[GateSession, ...]

    @property
    def state(self) -> str:
        """`settling`: a successor ends a dead migrator's work. `unclean`: the migrator is dead, without a successor."""
        is_open = self.run["ended_at"] is None
        if self.holder is None:
            return "unclean" if is_open else "free"
        if is_open:
            return "migrating" if self.holder.pid == self.run["lock_pid"] else "settling"
        return "held"


async def read_gates(session: Session, own_schema: str) -> list[GateStatus]:
    """Returns every gate that was ever used in this database."""
    if (await schema.read_status(session, own_schema)).state is schema.State.MISSING:
        return []
    rows = await session.fetch(gate_queries(own_schema)["all_gates"])
    return [await _status(session, row) for row in rows]


async def find_gate(session: Session, own_schema: str, gate: str | None) -> GateStatus:
    """Returns the gate of that name. `gate=None` means: the only gate in the database."""
    gates = await read_gates(session, own_schema)
    found = [status for status in gates if gate in (None, status.gate)]
    if len(found) == 1:
        return found[0]
    if not gates:
        raise errors.ConfigurationError("No gate was ever used in this database: check --database and --schema.")
    problem = f"There is no gate {gate!r} in this database" if gate else "There are several gates in this database"
    raise errors.ConfigurationError(f"{problem}: use --gate with one of {', '.join(status.gate for status in gates)}.")


async def _status(session: Session, row: Row) -> GateStatus:
    database, target_schema, app = (*row["gate"].split("/", 2), None)[:3]
    name = GateName(database, target_schema, app)
    holders = await _sessions(session, name.lock)
    run = {key: row[key] for key in row.keys() if key != "gate"}  # noqa: SIM118 - a Record iterates over values
    return GateStatus(
        str(name), name.lock, run, holders[0] if holders else None, await _sessions(session, name.waiting)
    )


async def _sessions(session: Session, key: AdvisoryKey) -> tuple[GateSession, ...]:
    rows = await session.fetch(_SESSIONS, *key)
    return tuple(GateSession(row["pid"], row["application_name"], row["backend_start"]) for row in rows)


_SESSIONS = f"""
SELECT holder.pid, a.application_name, a.backend_start
  FROM ({HOLDERS}) AS holder
  LEFT JOIN pg_stat_activity a ON a.pid = holder.pid
 ORDER BY a.backend_start, holder.pid
"""  # noqa: S608 - nothing but constants
