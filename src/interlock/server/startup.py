"""How far the start has come, and its first part: the database, then Interlock's own schema."""

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

_LOOK_AT_GATE_EVERY = 0.05


class Startup:
    """`phase` since `since`; while it is `waiting`, `holder` is who migrates, where that is known.

    `schema_status`, `url` and `control` are there once the phase is `ready`, and stay: a start is never taken back.
    """

    def __init__(self) -> None:
        self.phase: Phase = "database"
        self.since = datetime.now(UTC)
        self.holder: OpenRun | None = None
        self.schema_status: SchemaStatus | None = None
        self.url: str | None = None
        self.control: Control | None = None
        self._begun_at = boottime()

    @property
    def is_done(self) -> bool:
        return self.phase == "ready"

    @property
    def uptime(self) -> float:
        return boottime() - self._begun_at

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
    """The URL of a database with a schema that is current. Raises whatever InterlockError is in the way."""
    url = await database.bring_up()
    own = SchemaGate(url, settings.schema, timing=Timing.of(settings))
    following = asyncio.create_task(_follow(own.gate, startup))
    try:
        status = await own.bring_up_to_date()
    finally:
        following.cancel()
    return url, status


async def _follow(gate: AsyncGate, startup: Startup) -> None:
    while True:
        phase: Phase = "checking" if gate.phase == "idle" or gate.phase == "passed" else gate.phase
        startup.enter(phase, gate.holder if phase == "waiting" else None)
        await asyncio.sleep(_LOOK_AT_GATE_EVERY)
