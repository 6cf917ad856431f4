"""Interlock's schema as SQL text, for people who apply DDL with a tool of their own."""

from interlock.schema.migrations import Migration, all_migrations
from interlock.stores.postgres.queries import in_schema


def whole_schema(schema: str) -> str:
    """Everything, for a database without Interlock."""
    return in_schema("-- Interlock's whole schema.\nCREATE SCHEMA interlock;\n\n", schema) + changes_since(0, schema)


def changes_since(version: int, schema: str) -> str:
    """The migrations after `version`, for a database that has that one."""
    newer = [migration for migration in all_migrations() if migration.step.version > version]
    return in_schema("\n".join(f"{migration.sql}{_recorded(migration)}" for migration in newer), schema)


def _recorded(migration: Migration) -> str:
    step = migration.step
    return (
        "\nINSERT INTO interlock.migration (version, phase, name)"
        f" VALUES ({step.version}, '{step.phase}', '{migration.name}');\n"
    )
