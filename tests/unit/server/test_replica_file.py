"""The file with a replica's URL exists while the replica lives."""

import json
import os
from pathlib import Path

import pytest

from interlock.server import replica_file
from interlock.server.replica_file import announced


def urls(data: Path) -> dict[str, str]:
    return {file.stem: json.loads(file.read_text())["url"] for file in (data / "servers").glob("*.json")}


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The name of this replica, which a test may change."""
    name = ["one"]
    monkeypatch.setattr(replica_file, "replica_id", lambda: name[0])
    return name


def test_the_file_exists_inside_the_block_only(tmp_path: Path, named: list[str]) -> None:
    with announced(tmp_path, "http://here"):
        assert urls(tmp_path) == {"one": "http://here"}
        [file] = (tmp_path / "servers").glob("*.json")
        assert (file.stat().st_mode & 0o777, json.loads(file.read_text())["pid"]) == (0o600, os.getpid())
    assert urls(tmp_path) == {}


def test_a_new_replica_removes_the_files_of_dead_ones_only(tmp_path: Path, named: list[str]) -> None:
    with announced(tmp_path, "http://one"):
        (tmp_path / "servers" / "dead.json").write_text('{"url": "http://dead", "pid": 1, "replica": "dead"}')
        named[0] = "two"
        with announced(tmp_path, "http://two"):
            assert urls(tmp_path) == {"one": "http://one", "two": "http://two"}
        assert urls(tmp_path) == {"one": "http://one"}


def test_a_replica_does_not_remove_the_newer_file_of_the_same_name(tmp_path: Path, named: list[str]) -> None:
    first = announced(tmp_path, "http://first")
    first.__enter__()
    with announced(tmp_path, "http://second"):
        first.__exit__(None, None, None)
        assert urls(tmp_path) == {"one": "http://second"}
    assert urls(tmp_path) == {}


def test_a_slash_in_a_replica_name_leads_to_no_other_directory(tmp_path: Path, named: list[str]) -> None:
    named[0] = "../../etc"
    with announced(tmp_path, "http://here"):
        assert list(urls(tmp_path).values()) == ["http://here"]
