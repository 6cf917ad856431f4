"""The doctor's facts of a healthy database, for tests that change one of them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from interlock.doctor.facts import ConnectionLimit, DatabaseFacts, Need, Offset, Pooler, Privilege, Setting
from interlock.schema import SchemaStatus, State
from interlock.schema.migrations import all_migrations

USAGE = Need("USAGE", "schema", "interlock")
INSERT = Need("INSERT", "table", "gate_run")
UPDATE = Need("UPDATE", "table", "gate_run")
ACQUIRE = Need("EXECUTE", "function", "acquire_v1")
RELEASE = Need("EXECUTE", "function", "release_v1")

NEEDS = {"gate": (USAGE, INSERT, UPDATE), "leases": (USAGE, ACQUIRE, RELEASE)}

HEALTHY = DatabaseFacts(
    role="web",
    database="shop",
    version="17.5",
    round_trip=0.0004,
    is_standby=False,
    pooler=Pooler.NONE,
    clock=Offset(0.001, 0.002),
    settings={
        "deadlock_timeout": Setting(1.0, "default"),
        "fsync": Setting("on", "default"),
        "full_page_writes": Setting("on", "default"),
        "idle_in_transaction_session_timeout": Setting(0.0, "default"),
        "idle_session_timeout": Setting(0.0, "default"),
        "lock_timeout": Setting(0.0, "default"),
        "statement_timeout": Setting(0.0, "default"),
        "synchronous_commit": Setting("on", "default"),
        "synchronous_standby_names": Setting("", "default"),
        "transaction_timeout": Setting(0.0, "default"),
    },
    standbys=(),
    rooms=(ConnectionLimit("server", 97, 12),),
    schema=SchemaStatus("interlock", State.CURRENT, frozenset(migration.step for migration in all_migrations()), ()),
    may_create_schema=False,
    needs=NEEDS,
    held={need: Privilege.YES for needs in NEEDS.values() for need in needs},
)


def but(**changes: Any) -> DatabaseFacts:
    """Healthy facts with these changes."""
    return replace(HEALTHY, **changes)


def with_settings(values: Mapping[str, str | float] | None = None, *, source: str = "user") -> DatabaseFacts:
    """Healthy facts with these settings, which come from `source`."""
    changed = {name: Setting(value, source) for name, value in (values or {}).items()}
    return but(settings={**HEALTHY.settings, **changed})
