"""What whoever typed `interlock up` reads."""

from pathlib import Path

from interlock.config import Settings
from interlock.server.announcement import announcement
from interlock.server.database import database_for

URL = "http://127.0.0.1:8080"


def said(settings: Settings) -> str:
    return announcement(settings, database_for(settings), URL)


def test_it_names_the_page_the_data_and_the_way_to_stop() -> None:
    text = said(Settings(data_dir=Path("/data")))
    for part in (URL, "/data/postgres", "--data-dir /data", "Ctrl-C"):
        assert part in text


def test_other_commands_need_no_hint_for_the_usual_place() -> None:
    assert "find it by themselves." in said(Settings())


def test_a_named_database_is_shown_without_its_password() -> None:
    text = said(Settings(database_url="postgresql://user:secret@host/name?password=secret"))
    assert "postgresql://user@host/name" in text
    assert "secret" not in text
