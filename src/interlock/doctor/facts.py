"""What is seen of a database: observed once, and then judged by checks that ask nothing more."""

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
    """How far a server's clock is ahead of ours, in seconds: `ahead`, give or take `uncertainty`."""

    ahead: float
    uncertainty: float

    def against(self, other: "Offset") -> "Offset":
        """How far this one is ahead of another."""
        return Offset(self.ahead - other.ahead, self.uncertainty + other.uncertainty)

    @property
    def at_least(self) -> float:
        """What the two clocks differ by for certain."""
        return max(0.0, abs(self.ahead) - self.uncertainty)


@dataclass(frozen=True)
class Setting:
    """A setting of the server as a session of ours gets it; times in seconds. `source` is as pg_settings has it."""

    value: str | float
    source: str


@dataclass(frozen=True)
class StandbyFacts:
    """One that is connected to the primary. What the role may not see is None."""

    name: str
    state: str | None
    sync_state: str | None
    answered_ago: float | None
    """By the standby's own clock when it answered: below 0, that clock is ahead of the primary's."""


@dataclass(frozen=True)
class ServerFacts:
    """One of several that the URL names, reached on its own; `error` if it was not."""

    address: str
    is_standby: bool | None = None
    clock: Offset | None = None
    error: str | None = None


@dataclass(frozen=True)
class ConnectionLimit:
    """Connections that there may be at once, and that there are; `limit_of` says whose limit it is."""

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
    """Whether a role has a privilege; BY_ALL if everybody has it, ABSENT if there is nothing of that name."""

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
    """None: the role may not look."""
    may_create_schema: bool
    needs: Mapping[str, tuple[Need, ...]]
    """By what they are for."""
    held: Mapping[Need, Privilege]
