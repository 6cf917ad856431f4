"""The start of a replica: its phases, and its first steps, which bring up the database and then Interlock's schema."""

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from interlock.clock import boottime
from interlock.config import Settings
from interlock.gate.gate import AsyncGate
from interlock.gate.progress import OpenRun
from interlock.gate.schema_gate import SchemaGate
from interlock.gate.times import Timing
from interlock.logs import events
from interlock.schema import SchemaStatus
from interlock.server.database import ControlDatabase

if TYPE_CHECKING:
    from interlock.server.control import Control

log = events(__name__)

Phase = Literal["database", "checking", "waiting", "settling", "migrating", "joining", "ready"]

_GATE_POLL_INTERVAL = 0.05


class Startup:
    """The start has been in `phase` since `since`. In the phase `waiting`, `holder` is the replica that migrates, if
    this replica knows it.

    `schema_status`, `url` and `control` are set when the phase becomes `ready`. They stay set, because a start is never
    undone.
    """

    def __init__(self) -> None:
        self.phase: Phase = "database"
        self.since = datetime.now(UTC)
        self.holder: OpenRun | None = None
        self.schema_status: SchemaStatus | None = None
        self.url: str | None = None
        self.control: Control | None = None
        self._started_at = boottime()

    @property
    def is_done(self) -> bool:
        return self.phase == "ready"

    @property
    def uptime(self) -> float:
        return boottime() - self._started_at

    @property
    def schema_version(self) -> int | None:
        return max((step.version for step in self.schema_status.applied), default=None) if self.schema_status else None

    def enter(self, phase: Phase, holder: OpenRun | None = None) -> None:
        self.holder = holder
        if phase != self.phase:
            self.phase, self.since = phase, datetime.now(UTC)
            log.info("startup.phase", extra={"phase": phase, **(holder.facts() if holder else {})})

    def finish(self, url: str, status: SchemaStatus, control: "Control | None" = None) -> None:
        self.url, self.schema_status, self.control = url, status, control
        self.enter("ready")


async def start(startup: Startup, database: ControlDatabase, settings: Settings) -> tuple[str, SchemaStatus]:
    """Bring up the database and its schema. Returns the database's URL and the status of the schema, which is current.

    Raises the InterlockError that prevents the start.
    """
    url = await database.bring_up()
    own = SchemaGate(url, settings.schema, timing=Timing.of(settings))
    following = asyncio.create_task(_follow_gate(own.gate, startup))
    try:
        status = await own.bring_up_to_date()
    finally:
        following.cancel()
    return url, status


async def _follow_gate(gate: AsyncGate, startup: Startup) -> None:
    while True:
        phase: Phase = "checking" if gate.phase == "idle" or gate.phase == "passed" else gate.phase
        startup.enter(phase, gate.holder if phase == "waiting" else None)
        await asyncio.sleep(_GATE_POLL_INTERVAL)
