"""The checks: pure functions of the observed facts. Each check has at least one finding."""

from collections.abc import Callable, Iterator

from interlock.doctor.checks.access import privileges, schema
from interlock.doctor.checks.clocks import clocks, clocks_of_servers
from interlock.doctor.checks.connections import connections, pooler
from interlock.doctor.checks.durability import durability, replication
from interlock.doctor.checks.reach import not_reached, reachable, servers, version
from interlock.doctor.checks.timeouts import timeouts
from interlock.doctor.facts import DatabaseFacts
from interlock.doctor.result import Finding

ALL: tuple[Callable[[DatabaseFacts], Iterator[Finding]], ...] = (
    reachable,
    version,
    replication,
    durability,
    schema,
    privileges,
    pooler,
    clocks,
    timeouts,
    connections,
)

__all__ = ["ALL", "clocks_of_servers", "not_reached", "servers"]
