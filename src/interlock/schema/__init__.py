"""Interlock's own tables: their migrations, their state in a database, and their privileges."""

from interlock.schema.apply import apply
from interlock.schema.grants import USES, Use, grant, grant_sql
from interlock.schema.migrations import changes_since, newest_version, whole_schema
from interlock.schema.status import SchemaStatus, State, read_status

__all__ = [
    "USES",
    "SchemaStatus",
    "State",
    "Use",
    "apply",
    "changes_since",
    "grant",
    "grant_sql",
    "newest_version",
    "read_status",
    "whole_schema",
]
