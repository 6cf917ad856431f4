"""The lines that `interlock up` prints once it is ready, and at its stop."""

from pathlib import Path

import pytest

from interlock.config import Settings
from interlock.server.database import database_for
from interlock.server.operator_messages import env_command, ready_message, still_running_message

URL = "http://127.0.0.1:8080"


def message(settings: Settings) -> str:
    return ready_message(settings, database_for(settings), URL)


def test_the_message_names_the_url_the_data_and_the_keys_to_stop() -> None:
    text = message(Settings(data_dir=Path("/data")))
    for part in (URL, "Data      /data\n", "/data/postgres", "find this database by --data-dir /data.", "Ctrl-C"):
        assert part in text


def test_the_message_shows_how_other_programs_get_the_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    for script, command in (
        ("/usr/bin/interlock", "interlock"),
        (str(tmp_path / ".venv" / "bin" / "interlock"), ".venv/bin/interlock"),
        ("/opt/shop/bin/interlock", "/opt/shop/bin/interlock"),
    ):
        monkeypatch.setattr("sys.argv", [script, "up"])
        assert f'eval "$({command} env)"' in message(Settings())
        assert f"eval \"$({command} env --data-dir '/my data')\"" in message(Settings(data_dir=Path("/my data")))
    monkeypatch.setattr("sys.argv", ["/opt/interlock/__main__.py", "up"])
    assert "python -m interlock env" in message(Settings()).replace("python3", "python")


def test_the_default_directory_needs_no_option() -> None:
    assert "find this database by themselves." in message(Settings())


def test_a_named_database_is_shown_without_its_password() -> None:
    text = message(Settings(database_url="postgresql://user:secret@host/name?password=secret"))
    assert "postgresql://user@host/name" in text
    assert "secret" not in text


def test_a_named_database_has_no_command_for_its_url() -> None:
    assert env_command(Settings(database_url="postgresql://user:secret@host/name")) == ""
    assert env_command(Settings()).startswith('eval "$(')


def test_the_message_at_the_stop_names_the_instances_and_how_to_stop_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("sys.argv", ["/usr/bin/interlock", "up"])
    assert still_running_message(["shop"]) == (
        "1 instance goes on running: shop.\n"
        "To stop one: start `interlock up` again, then run `interlock instance stop shop`."
    )
    assert still_running_message(list("abcdefg")).startswith("7 instances go on running: a, b, c, d, e and 2 more.\n")
