"""SQL from files: found by name, and for whatever Interlock's schema is called."""

import re
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from interlock.errors import ConfigurationError
from interlock.stores.postgres import Queries, quote_identifier
from interlock.stores.postgres.queries import in_schema

SOURCE = Path(str(files("interlock")))
SQL_FILES = sorted(SOURCE.rglob("*.sql"))
QUERY_FILES = [file for file in SQL_FILES if "-- name:" in file.read_text(encoding="utf-8")]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "queries_of_a_test").mkdir()
    (tmp_path / "queries_of_a_test" / "__init__.py").touch()
    (tmp_path / "queries_of_a_test" / "some.sql").write_text(
        "-- About this file.\n\n"
        "-- name: first\n-- Unknown → known, for $2 days.\nSELECT 1 FROM interlock.gate_run;\n\n"
        "-- name: second\n-- Known → gone.\nDELETE FROM interlock.gate_step;\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "queries_of_a_test"
    sys.modules.pop("queries_of_a_test", None)


def test_a_statement_is_found_by_its_name(package: str) -> None:
    queries = Queries(package, "some.sql", "interlock")
    assert list(queries) == ["first", "second"]
    assert queries["first"] == 'SELECT 1 FROM "interlock".gate_run'
    assert queries["second"] == 'DELETE FROM "interlock".gate_step'


def test_a_name_that_is_not_there_is_a_mistake(package: str) -> None:
    with pytest.raises(KeyError):
        Queries(package, "some.sql", "interlock")["third"]


@pytest.mark.parametrize("file", QUERY_FILES, ids=lambda file: file.name)
def test_every_statement_has_its_own_name_and_a_description(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    names = re.findall(r"^-- name: (.*)$", text, re.MULTILINE)
    assert len(set(names)) == len(names)
    assert len(re.findall(r"^-- name: \w+\n-- \S", text, re.MULTILINE)) == len(names)


@pytest.mark.parametrize("file", SQL_FILES, ids=lambda file: file.name)
def test_under_another_name_nothing_of_the_usual_schema_is_left(file: Path) -> None:
    text = re.sub(r"--.*", "", file.read_text(encoding="utf-8"))
    code = in_schema(text, "elsewhere")
    assert not re.search(r"\binterlock\b", code)
    assert ('"elsewhere".' in code) == ("interlock." in text)


def test_only_the_schemas_name_is_replaced() -> None:
    sql = "SELECT 'interlock gate', my_interlock.x, interlocks.y FROM interlock.gate_run"
    assert in_schema(sql, "own") == "SELECT 'interlock gate', my_interlock.x, interlocks.y FROM \"own\".gate_run"


@pytest.mark.parametrize("schema", ["", "Own", "my-schema", "1st", 'a"; DROP', "pg_own", "ü", "a" * 64, "a\n"])
def test_a_name_that_could_surprise_is_refused(schema: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be the name of Interlock's schema"):
        in_schema("SELECT 1", schema)


@pytest.mark.parametrize("schema", ["own", "_own", "own_2", "user", "a" * 63])
def test_a_plain_name_is_taken_even_if_it_is_a_reserved_word(schema: str) -> None:
    assert in_schema("interlock.x", schema) == f'"{schema}".x'


def test_a_quote_in_an_identifier_does_not_end_it() -> None:
    assert quote_identifier('a"b') == '"a""b"'
