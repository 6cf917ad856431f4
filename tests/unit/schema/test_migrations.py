"""The migrations as files: in order, complete, and such that a running release keeps what it was started with."""

import re
from importlib.resources import files

import pytest

from interlock.schema import changes_since, newest_version, whole_schema
from interlock.schema.migrations import Migration, MigrationScript, all_migrations

IN_ORDER = [
    MigrationScript(1, "pre"),
    MigrationScript(2, "pre"),
    MigrationScript(2, "post"),
    MigrationScript(10, "pre"),
]
MIXED_UP = [IN_ORDER[index] for index in (2, 3, 1, 0)]


def test_every_file_is_a_migration() -> None:
    names = [file.name for file in files("interlock.schema").joinpath("migrations").iterdir()]
    assert sorted(names) == [f"{one.step.version:04}_{one.name}.{one.step.phase}.sql" for one in all_migrations()]


def test_versions_have_no_gaps_and_end_with_the_newest() -> None:
    versions = sorted({migration.step.version for migration in all_migrations()})
    assert versions == list(range(1, newest_version() + 1))


def test_pre_comes_before_post_of_the_same_version() -> None:
    assert sorted(MIXED_UP, key=lambda step: step.rank) == IN_ORDER


@pytest.mark.parametrize("migration", all_migrations(), ids=lambda migration: migration.name)
def test_functions_are_never_replaced(migration: Migration) -> None:
    assert not re.search(r"CREATE\s+OR\s+REPLACE", migration.sql, re.IGNORECASE)


@pytest.mark.parametrize("migration", all_migrations(), ids=lambda migration: migration.name)
def test_a_migration_can_run_in_a_transaction_with_others(migration: Migration) -> None:
    statements = re.sub(r"\$\$.*?\$\$|--[^\n]*", "", migration.sql, flags=re.DOTALL)
    assert not re.search(r"\b(BEGIN|COMMIT|ROLLBACK|CONCURRENTLY)\b", statements)


def test_changes_since_a_version_are_its_later_migrations_and_their_records() -> None:
    since = changes_since(1, "own")
    assert 'CREATE TABLE "own".gate_run' in since
    assert 'CREATE TABLE "own".migration' not in since
    assert re.findall(r"INSERT INTO .* VALUES \((\d+),", since) == [str(n) for n in range(2, newest_version() + 1)]


def test_nothing_came_since_the_newest_version() -> None:
    assert changes_since(newest_version(), "own") == ""


def test_the_whole_schema_under_another_name_mentions_the_usual_one_nowhere() -> None:
    code = re.sub(r"--.*", "", whole_schema("elsewhere") + changes_since(0, "elsewhere"))
    assert not re.search(r"\binterlock\b", code)  # `interlock_guard` is a name of its own
