"""Messages about a database that was not named, or that cannot serve the command."""

import pytest
from click.testing import CliRunner

from interlock import AsyncGate, Gate
from interlock.cli import main
from interlock.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("INTERLOCK_DATABASE_URL", "INTERLOCK_CONFIG"):
        monkeypatch.delenv(variable, raising=False)


def said(*arguments: str) -> str:
    told = CliRunner().invoke(main, arguments, prog_name="interlock")
    assert told.exit_code == 78
    return told.output


@pytest.mark.parametrize("command", ["create", "check"])
def test_a_missing_table_is_named_by_argument_or_environment(command: str) -> None:
    assert said("store", command) == (
        f"interlock: No DynamoDB table was named: run `interlock store {command} dynamodb://TABLE?region=REGION`, "
        "or set INTERLOCK_DATABASE_URL to that URL.\n"
    )


def test_the_doctor_lists_the_forms_of_a_url() -> None:
    told = said("doctor", "--database", "mysql://web:geheim@db/shop")
    assert "begins with 'mysql://': it should look like postgresql://" in told
    assert "sqlite:///file.db, or dynamodb://table" in told
    assert "geheim" not in told


@pytest.mark.parametrize("url", ["sqlite:///leases.db", "dynamodb://locks?region=eu-west-1", "SQLite:///leases.db"])
def test_a_gate_says_what_it_needs(url: str) -> None:
    kind = url.partition(":")[0].lower()
    words = f"The gate needs PostgreSQL, and a {kind}:// database keeps only leases: use a postgresql:// URL."
    assert said("gate", "run", "--database", url, "--", "true") == f"interlock: {words}\n"
    for gate in (Gate, AsyncGate):
        with pytest.raises(ConfigurationError, match=words):
            gate("shop", url=url)
