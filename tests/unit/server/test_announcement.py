"""The lines that `interlock up` prints once it is ready."""

from pathlib import Path

import pytest

from interlock.config import Settings
from interlock.server.announcement import announcement
from interlock.server.database import database_for

URL = "http://127.0.0.1:8080"


def said(settings: Settings) -> str:
    return announcement(settings, database_for(settings), URL)


def test_it_names_the_page_the_data_and_the_way_to_stop() -> None:
    text = said(Settings(data_dir=Path("/data")))
    for part in (URL, "Data      /data\n", "/data/postgres", "find it by --data-dir /data.", "Ctrl-C"):
        assert part in text


def test_it_prints_the_line_that_gives_the_database_to_other_programs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    for script, command in (
        ("/usr/bin/interlock", "interlock"),
        (str(tmp_path / ".venv" / "bin" / "interlock"), ".venv/bin/interlock"),
        ("/opt/shop/bin/interlock", "/opt/shop/bin/interlock"),
    ):
        monkeypatch.setattr("sys.argv", [script, "up"])
        assert f'eval "$({command} env)"' in said(Settings())
        assert f"eval \"$({command} env --data-dir '/my data')\"" in said(Settings(data_dir=Path("/my data")))
    monkeypatch.setattr("sys.argv", ["/opt/interlock/__main__.py", "up"])
    assert "python -m interlock env" in said(Settings()).replace("python3", "python")


def test_other_commands_need_no_hint_for_the_usual_place() -> None:
    assert "find it by themselves." in said(Settings())


def test_a_named_database_is_shown_without_its_password() -> None:
    text = said(Settings(database_url="postgresql://user:secret@host/name?password=secret"))
    assert "postgresql://user@host/name" in text
    assert "secret" not in text
