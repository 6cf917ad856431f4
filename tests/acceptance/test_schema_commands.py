"""`interlock schema`, for operators, for scripts and for other migration tools."""

import json
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from interlock.embedded import find_binaries
from interlock.schema import newest_version
from interlock.schema.migrations import all_migrations
from support.postgres import execute
from support.programs import interlock, started


def one_line(error: str) -> str:
    """Returns standard error, which has to be one line with the program's name."""
    lines = error.splitlines()
    assert len(lines) == 1, error
    assert lines[0].startswith("interlock: ")
    return lines[0]


def apply_with_psql(url: str, script: str) -> None:
    program = find_binaries(None).tool("psql")
    subprocess.run([program, url, "-X", "-q", "-v", "ON_ERROR_STOP=1"], input=script, text=True, check=True)


def test_the_printed_schema_can_be_applied_with_psql(database_url: str) -> None:
    printed = interlock("schema", "print", "--grant", "pg_monitor")
    assert (printed.returncode, printed.stderr) == (0, "")
    apply_with_psql(database_url, printed.stdout)
    assert interlock("schema", "status", url=database_url).stdout.splitlines() == [
        "schema: interlock",
        "state: current",
        f"version: {newest_version()}",
        f"release_version: {newest_version()}",
        "pending: none",
    ]
    may = "SELECT has_table_privilege('pg_monitor', 'interlock.gate_run', 'INSERT')"
    assert execute(database_url, may) == [(True,)]


def test_only_the_changes_since_a_version_can_be_printed() -> None:
    since = interlock("schema", "print", "--since", "1", "--schema", "own")
    assert since.returncode == 0
    assert 'CREATE TABLE "own".gate_run' in since.stdout
    assert 'CREATE TABLE "own".migration' not in since.stdout
    assert interlock("schema", "print", "--since", str(newest_version())).stdout == ""


def test_printing_needs_no_database(tmp_path: Path) -> None:
    done = interlock("schema", "print", HOME=str(tmp_path))
    assert done.returncode == 0
    assert done.stdout.count("CREATE SCHEMA") == 1
    assert done.stdout.count('INSERT INTO "interlock".migration') == len(all_migrations())


def test_from_missing_over_applied_to_granted(database_url: str) -> None:
    missing = interlock("schema", "status", "--json", url=database_url)
    assert (missing.returncode, missing.stderr) == (1, "")
    assert json.loads(missing.stdout) == {
        "schema": "interlock",
        "state": "missing",
        "version": None,
        "release_version": newest_version(),
        "pending": [f"{one.step.version:04} {one.name}" for one in all_migrations()],
    }

    for _ in range(2):
        applied = interlock("schema", "apply", url=database_url)
        assert applied.returncode == 0
        assert applied.stdout == f"The schema 'interlock' is current, at version {newest_version()}.\n"

    granted = interlock("schema", "grant", "pg_monitor", url=database_url)
    assert (granted.returncode, granted.stderr) == (0, "")
    assert granted.stdout == "pg_monitor may use the schema 'interlock'.\n"

    current = interlock("schema", "status", "--json", url=database_url)
    assert current.returncode == 0
    assert json.loads(current.stdout)["state"] == "current"
    assert json.loads(current.stdout)["pending"] == []


def test_a_configuration_file_is_read_and_the_environment_beats_it(interlock_url: str, tmp_path: Path) -> None:
    file = tmp_path / "interlock.toml"
    file.write_text(f'database_url = "{interlock_url}"\nschema = "elsewhere"\n', encoding="utf-8")
    for found in (
        interlock("schema", "status", "--json", "--config", str(file)),
        interlock("schema", "status", "--json", INTERLOCK_CONFIG=str(file)),
    ):
        assert json.loads(found.stdout)["schema"] == "elsewhere"
    found = interlock("schema", "status", "--json", "--config", str(file), INTERLOCK_SCHEMA="interlock")
    assert json.loads(found.stdout)["state"] == "current"


def test_many_may_apply_it_at_once(database_url: str) -> None:
    with (
        started("schema", "apply", "--schema", "own", url=database_url) as first,
        started("schema", "apply", "--schema", "own", url=database_url) as second,
    ):
        assert [first.end()[0], second.end()[0]] == [0, 0]
    assert execute(database_url, "SELECT count(*) FROM own.migration") == [(len(all_migrations()),)]


def test_an_unusable_schema_is_one_line_and_a_status(interlock_url: str) -> None:
    execute(interlock_url, "INSERT INTO interlock.migration (version, phase, name) VALUES (9000, 'post', 'later')")
    applied = interlock("schema", "apply", url=interlock_url)
    assert (applied.returncode, applied.stdout) == (78, "")
    assert "upgrade Interlock here" in one_line(applied.stderr)
    shown = interlock("schema", "status", url=interlock_url)
    assert shown.returncode == 1
    assert "state: too new" in shown.stdout


def test_a_foreign_schema_is_refused(interlock_url: str) -> None:
    execute(interlock_url, "CREATE TABLE public.orders ()")
    applied = interlock("schema", "apply", "--schema", "public", url=interlock_url)
    assert applied.returncode == 78
    assert "is not Interlock's" in one_line(applied.stderr)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["schema", "print", "--schema", "No Schema"], "cannot be the name of Interlock's schema"),
        (["schema", "status", "--database", "mysql://web:geheim@db/shop"], "begins with 'mysql://'"),
        (["schema", "apply", "--database", "postgresql://web:12/geheim@db/shop"], "cannot be read"),
        (["schema", "grant", "web", "--database", "postgresql://web:geheim@db:port/shop"], "cannot be read"),
    ],
)
def test_an_invalid_argument_is_one_line_without_the_password(arguments: list[str], complaint: str) -> None:
    done = interlock(*arguments)
    assert (done.returncode, done.stdout) == (78, "")
    assert complaint in one_line(done.stderr)
    assert "geheim" not in done.stderr


def test_an_argument_that_the_database_refuses_is_one_line(database_url: str, interlock_url: str) -> None:
    name = interlock("schema", "status", "--schema", "No Schema", url=database_url)
    assert (name.returncode, "cannot be the name" in one_line(name.stderr)) == (78, True)
    role = interlock("schema", "grant", "unknown-role", url=interlock_url)
    assert (role.returncode, "There is no role 'unknown-role'" in one_line(role.stderr)) == (78, True)
    schema = interlock("schema", "grant", "pg_monitor", url=database_url)
    assert (schema.returncode, "run `interlock schema apply`" in one_line(schema.stderr)) == (78, True)


def test_a_database_that_refuses_or_does_not_answer_is_one_line_and_a_status(server_url: str) -> None:
    parts = urlsplit(server_url)
    wrong = f"postgresql://web:geheim@{parts.hostname}:{parts.port}/postgres"
    refused = interlock("schema", "status", url=wrong)
    assert (refused.returncode, "refused this process" in one_line(refused.stderr)) == (77, True)
    nowhere = interlock("schema", "status", url="postgresql://web:geheim@127.0.0.1:1/shop")
    assert (nowhere.returncode, "No database answers" in one_line(nowhere.stderr)) == (69, True)
    assert "geheim" not in refused.stderr + nowhere.stderr


def test_the_error_without_a_database_says_how_to_name_one(tmp_path: Path) -> None:
    done = interlock("schema", "status", INTERLOCK_DATA_DIR=str(tmp_path))
    assert done.returncode == 78
    assert "set INTERLOCK_DATABASE_URL, pass --database" in one_line(done.stderr)


@pytest.mark.parametrize("since", ["0", "-1", "first"])
def test_an_unknown_version_is_a_usage_error(since: str) -> None:
    done = interlock("schema", "print", "--since", since)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("url", "instead"),
    [("sqlite:///leases.db", "makes its tables"), ("dynamodb://locks?region=eu-west-1", "`interlock store create`")],
)
def test_stores_without_a_schema_name_the_alternative(url: str, instead: str) -> None:
    done = interlock("schema", "apply", url=url)
    assert done.returncode == 78
    assert instead in one_line(done.stderr)
