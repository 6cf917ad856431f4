"""Packages above durable reach its tables, and the engine's, only through its functions."""

import re
from pathlib import Path

import pytest

import interlock

PACKAGE = Path(interlock.__file__).parent
TABLES = re.compile(r"interlock\.(orchestration|attempt)\b|\binterlock_engine\b")
OWNERS = ("durable", "schema")
FILES = sorted(
    path.relative_to(PACKAGE).as_posix()
    for kind in ("*.sql", "*.py")
    for path in PACKAGE.rglob(kind)
    if path.relative_to(PACKAGE).parts[0] not in OWNERS
)
LATER = sorted(path.name for path in (PACKAGE / "schema" / "migrations").glob("*.sql") if path.name > "0007")


@pytest.mark.parametrize("name", FILES)
def test_no_other_package_names_the_tables(name: str) -> None:
    assert not TABLES.findall((PACKAGE / name).read_text("utf-8"))


@pytest.mark.parametrize("name", LATER)
def test_no_later_migration_names_the_tables(name: str) -> None:
    assert not TABLES.findall((PACKAGE / "schema" / "migrations" / name).read_text("utf-8"))


def test_the_pattern_finds_the_tables_and_no_function() -> None:
    assert all(
        TABLES.search(statement)
        for statement in ("FROM interlock.orchestration o", "JOIN interlock.attempt", "interlock_engine.executions")
    )
    assert not TABLES.search("interlock.read_orchestration_v1(i.orchestration)")
