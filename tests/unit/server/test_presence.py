"""The file that says where a replica answers, for as long as it does."""

import json
import os
from pathlib import Path

import pytest

from interlock.server import presence
from interlock.server.presence import present


def announced(data: Path) -> dict[str, str]:
    return {file.stem: json.loads(file.read_text())["url"] for file in (data / "servers").glob("*.json")}


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of this replica, which a test may change."""
    name = ["one"]
    monkeypatch.setattr(presence, "replica_id", lambda: name[0])
    return name


def test_it_is_there_inside_and_gone_after(tmp_path: Path, named: list[str]) -> None:
    with present(tmp_path, "http://here"):
        assert announced(tmp_path) == {"one": "http://here"}
        [file] = (tmp_path / "servers").glob("*.json")
        assert (file.stat().st_mode & 0o777, json.loads(file.read_text())["pid"]) == (0o600, os.getpid())
    assert announced(tmp_path) == {}


def test_who_comes_removes_what_the_dead_left_and_leaves_the_living(tmp_path: Path, named: list[str]) -> None:
    with present(tmp_path, "http://one"):
        (tmp_path / "servers" / "dead.json").write_text('{"url": "http://dead", "pid": 1, "replica": "dead"}')
        named[0] = "two"
        with present(tmp_path, "http://two"):
            assert announced(tmp_path) == {"one": "http://one", "two": "http://two"}
        assert announced(tmp_path) == {"one": "http://one"}


def test_who_goes_leaves_the_file_of_a_namesake_that_came_since(tmp_path: Path, named: list[str]) -> None:
    first = present(tmp_path, "http://first")
    first.__enter__()
    with present(tmp_path, "http://second"):
        first.__exit__(None, None, None)
        assert announced(tmp_path) == {"one": "http://second"}
    assert announced(tmp_path) == {}


def test_a_name_with_a_slash_is_no_path(tmp_path: Path, named: list[str]) -> None:
    named[0] = "../../etc"
    with present(tmp_path, "http://here"):
        assert list(announced(tmp_path).values()) == ["http://here"]
