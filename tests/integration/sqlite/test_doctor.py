"""`interlock doctor` on a SQLite file."""

import json
import os
import sqlite3
from pathlib import Path

import pytest

from interlock import Interlock
from interlock.doctor import Finding, Verdict, examine, exit_status, worst
from interlock.stores.sqlite import driver_errors, mounts
from support.programs import interlock


async def findings(file: Path) -> dict[str, Finding]:
    return {finding.check: finding for finding in await examine(f"sqlite:///{file}", "interlock")}


def test_a_file_that_serves(url: str, sync_locks: Interlock) -> None:
    sync_locks.lease("feeds").acquire()
    done = interlock("doctor", "--json", url=url)
    told = json.loads(done.stdout)
    assert (done.returncode, told["verdict"], told["database"]) == (0, "ok", url)
    by_check = {finding["check"]: finding for finding in told["findings"]}
    assert list(by_check) == ["version", "reachable", "disk", "writer lock", "journal", "schema"]
    assert by_check["journal"]["facts"] == {"journal_mode": "wal"}
    assert by_check["schema"]["facts"] == {"has_leases": True}


async def test_a_file_that_is_not_there_yet_is_not_made(file: Path) -> None:
    found = await findings(file)
    assert worst(found.values()) is Verdict.OK
    assert (
        found["reachable"].says == "This process may write to the directory: the first use of a lease creates the file."
    )
    assert list(file.parent.iterdir()) == []


async def test_a_foreign_file_is_left_unchanged(file: Path) -> None:
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE stock (counted INTEGER)")
    connection.commit()
    connection.close()
    before = file.read_bytes()
    found = await findings(file)
    assert worst(found.values()) is Verdict.OK
    assert found["journal"].says.startswith("Its journal_mode is delete: ")
    assert found["schema"].facts == {"has_leases": False}
    assert file.read_bytes() == before


async def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    found = await findings(tmp_path / "nowhere" / "app.db")
    assert exit_status(found.values()) == 69
    assert "does not exist: create this directory" in found["reachable"].says
    assert "writer lock" not in found


async def test_a_file_that_is_not_a_database(file: Path) -> None:
    file.write_text("a letter to my aunt, which is longer than the header of a database would be: " * 3)
    found = await findings(file)
    assert exit_status(found.values()) == 78
    assert "is not a SQLite database" in found["schema"].says


async def test_tables_of_a_newer_release(file: Path, sync_locks: Interlock) -> None:
    sync_locks.lease("feeds").acquire()
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE interlock_file SET version = 99")
    connection.close()
    found = await findings(file)
    assert found["schema"].verdict is Verdict.PROBLEM
    assert "to version 99" in found["schema"].says


async def test_a_disk_of_a_network(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"36 22 0:32 / {file.parent} rw - nfs4 server:/x rw\n")
    monkeypatch.setattr(mounts, "_MOUNTS", table)
    found = await findings(file)
    assert exit_status(found.values()) == 78
    assert "is on a network file system (nfs4)" in found["disk"].says


async def test_a_sqlite_that_is_too_old(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_errors, "_OLDEST", (99, 0, 0))
    found = await findings(file)
    assert found["version"].verdict is Verdict.PROBLEM
    assert "leases need 99.0.0 or newer" in found["version"].says


@pytest.mark.parametrize("what", ["file", "writer lock"])
async def test_a_path_without_write_permission(
    file: Path, sync_locks: Interlock, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root everything may be, so the system's answer is put in its place."""
    sync_locks.lease("feeds").acquire()
    locked = file if what == "file" else file.with_name("app.db-interlock")
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != locked and access(path, mode))
    found = await findings(file)
    assert exit_status(found.values()) == 77
    assert str(locked) in found["reachable" if what == "file" else "writer lock"].says
