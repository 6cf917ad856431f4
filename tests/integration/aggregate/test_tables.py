"""Every table of records: the declaration of its domain agrees with its migration."""

import importlib
import pkgutil
import re
from dataclasses import fields
from typing import Any

import pytest

import interlock
from interlock.aggregate.record import Record
from interlock.aggregate.table import NamedTable, RecordTable
from interlock.schema.grants import grant_sql
from support.postgres import execute

TRIGGERS = """
    SELECT tgname, pg_get_triggerdef(t.oid) FROM pg_trigger t
     WHERE tgrelid = to_regclass('interlock.' || %s) AND NOT tgisinternal ORDER BY tgname
"""
COLUMNS = "SELECT column_name FROM information_schema.columns WHERE table_schema = 'interlock' AND table_name = %s"


def tables() -> list[type[RecordTable[Any]]]:
    for module in pkgutil.walk_packages(interlock.__path__, "interlock."):
        if module.name.rpartition(".")[2] in ("records", "model"):
            importlib.import_module(module.name)
    found = {*RecordTable.__subclasses__(), *NamedTable.__subclasses__()} - {NamedTable}
    ours: list[type[RecordTable[Any]]] = [one for one in found if one.__module__.startswith("interlock.")]  # type: ignore[misc] # a set of classes
    return sorted(ours, key=lambda one: one.table)


TABLES = pytest.mark.parametrize("kind", tables(), ids=lambda kind: kind.table)


def test_there_are_some() -> None:
    assert {one.table for one in tables()} >= {"instance", "instance_backup"}


@TABLES
def test_the_database_refuses_what_the_model_does_not_declare(interlock_url: str, kind: type[RecordTable[Any]]) -> None:
    """The migration's triggers are those that the declaration prints."""
    migrated = execute(interlock_url, TRIGGERS, kind.table)
    assert len(migrated) == 2
    for name, _ in migrated:
        execute(interlock_url, f"DROP TRIGGER {name} ON interlock.{kind.table}")
    execute(interlock_url, kind("interlock").triggers())
    assert execute(interlock_url, TRIGGERS, kind.table) == migrated


@TABLES
def test_the_table_has_the_columns_of_every_record_and_those_of_its_own(
    interlock_url: str, kind: type[RecordTable[Any]]
) -> None:
    columns = {name for (name,) in execute(interlock_url, COLUMNS, kind.table)}
    assert issubclass(kind.record, Record)
    assert {field.name for field in fields(kind.record)} <= columns


@TABLES
def test_a_role_that_needs_it_gets_the_table(kind: type[RecordTable[Any]]) -> None:
    assert re.search(rf"interlock\"?\.{kind.table}\b", grant_sql("app", "interlock"))
