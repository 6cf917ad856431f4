"""The observed facts of a database. The checks judge them without further queries."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from interlock.schema import SchemaStatus

NamesSomething = Literal["schema", "table", "function"]


class Pooler(StrEnum):
    NONE = "none"
    SESSION = "session"
    TRANSACTION = "transaction"
    STATEMENT = "statement"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Offset:
    """A server's clock is `ahead` seconds ahead of this process's clock, plus or minus `uncertainty` seconds."""

    ahead: float
    uncertainty: float

    def against(self, other: "Offset") -> "Offset":
        """Returns the offset of this server's clock from the clock of another server."""
        return Offset(self.ahead - other.ahead, self.uncertainty + other.uncertainty)

    @property
    def at_least(self) -> float:
        """The seconds by which the clocks certainly differ."""
        return max(0.0, abs(self.ahead) - self.uncertainty)


@dataclass(frozen=True)
class Setting:
    """A setting as a session of Interlock gets it from the server; times in seconds. `source` is as in pg_settings."""

    value: str | float
    source: str


@dataclass(frozen=True)
class StandbyFacts:
    """A standby that is connected to the primary. Facts that the role may not see are None."""

    name: str
    state: str | None
    sync_state: str | None
    answered_ago: float | None
    """The age of the standby's last answer by its own clock. Below 0, the standby's clock is ahead of the primary's."""


@dataclass(frozen=True)
class ServerFacts:
    """One of several servers of the URL, connected to separately. `error` is set if the connection failed."""

    address: str
    is_standby: bool | None = None
    clock: Offset | None = None
    error: str | None = None


@dataclass(frozen=True)
class ConnectionLimit:
    """A limit of concurrent connections, and the number in use. `limit_of` is the scope of the limit."""

    limit_of: Literal["server", "role", "database"]
    limit: int
    used: int

    @property
    def free(self) -> int:
        return max(0, self.limit - self.used)


@dataclass(frozen=True)
class Need:
    """A privilege that a role needs on something in Interlock's schema."""

    privilege: str
    kind: NamesSomething
    name: str

    def __str__(self) -> str:
        return f"{self.privilege} on {self.kind} {self.name}"


class Privilege(StrEnum):
    """The state of a role's privilege. BY_ALL: PUBLIC has it. ABSENT: there is no object of that name."""

    YES = "yes"
    NO = "no"
    BY_ALL = "by all"
    ABSENT = "absent"


@dataclass(frozen=True, kw_only=True)
class DatabaseFacts:
    role: str
    database: str
    version: str
    round_trip: float
    is_standby: bool
    pooler: Pooler
    clock: Offset
    settings: Mapping[str, Setting]
    standbys: tuple[StandbyFacts, ...]
    rooms: tuple[ConnectionLimit, ...]
    schema: SchemaStatus | None
    """None if the role may not read the schema."""
    may_create_schema: bool
    needs: Mapping[str, tuple[Need, ...]]
    """The needed privileges, by the part of Interlock that they are for."""
    held: Mapping[Need, Privilege]
