"""Impossible requests are refused by Interlock's errors."""

import os
import sqlite3
from pathlib import Path

import pytest

from interlock import AsyncInterlock, Interlock
from interlock.errors import (
    ConfigurationError,
    DatabaseUnreachable,
    InterlockError,
    PermissionMissing,
    SchemaTooNew,
    StatementFailed,
)
from interlock.stores.sqlite import boot, mounts


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite://leases.db", "names no file"),
        ("sqlite://host/leases.db", "names no file"),
        ("sqlite:////var/lib/", "names no file"),
        ("sqlite:///:memory:", "in memory"),
        ("sqlite:///leases.db?mode=ro", "has options"),
        ("sqlite:///leases.db#x", "has options"),
        ("sqlite:///le%00ases.db", "control characters"),
    ],
)
def test_a_url_that_names_no_file_is_refused_at_once(url: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        AsyncInterlock(url)


@pytest.mark.parametrize(
    ("option", "value"), [("password", lambda: "x"), ("schema", "other"), ("pooler", "transaction"), ("pooler", "none")]
)
def test_options_of_other_stores_are_refused_at_once(option: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"{option}= is only for PostgreSQL"):
        AsyncInterlock("sqlite:///leases.db", **{option: value})  # type: ignore[arg-type]


def test_a_session_lock_is_refused_at_once() -> None:
    for locks in (AsyncInterlock("sqlite:///leases.db"), Interlock("sqlite:///leases.db")):
        with pytest.raises(ConfigurationError, match="A session lock needs a session of PostgreSQL"):
            locks.session_lock("feeds")


async def refusal(url: str) -> InterlockError:
    """The same, whichever way it is met."""
    with pytest.raises(InterlockError) as opening:
        async with AsyncInterlock(url):
            pass
    with pytest.raises(type(opening.value)):
        await AsyncInterlock(url).lease("feeds").acquire()
    return opening.value


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    error = await refusal(f"sqlite:///{tmp_path}/none/leases.db")
    assert isinstance(error, DatabaseUnreachable)
    assert f"The directory {tmp_path}/none does not exist: create this directory" in str(error)


async def test_a_directory_is_no_file(tmp_path: Path) -> None:
    error = await refusal(f"sqlite:///{tmp_path}")
    assert isinstance(error, ConfigurationError)
    assert "is a directory" in str(error)


async def test_something_else_than_a_database_is_left_as_it_is(file: Path, url: str) -> None:
    content = b"To whom it may concern: this is a letter, and not a database at all.\n" * 100
    file.write_bytes(content)
    error = await refusal(url)
    assert isinstance(error, ConfigurationError)
    assert "is not a SQLite database" in str(error)
    assert file.read_bytes() == content


async def test_a_damaged_file_is_called_so(file: Path, url: str) -> None:
    with Interlock(url) as locks, locks.lease("feeds"):
        pass
    content = bytearray(file.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    file.write_bytes(content)
    error = await refusal(url)
    assert isinstance(error, StatementFailed | ConfigurationError)


@pytest.mark.parametrize("what", ["file", "directory"])
async def test_a_path_without_write_permission_is_named(
    file: Path, url: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write everything, so the system's answer is asked for by another name."""
    sqlite3.connect(file).close()
    target = file if what == "file" else file.parent
    usual = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != target and usual(path, mode))
    error = await refusal(url)
    assert isinstance(error, PermissionMissing)
    assert f"This process may not write to {target}" in str(error)


async def test_a_newer_releases_tables_are_left_alone(url: str, file: Path, mine: sqlite3.Connection) -> None:
    with Interlock(url) as locks, locks.lease("feeds"):
        pass
    mine.execute("UPDATE interlock_file SET version = 99")
    error = await refusal(url)
    assert isinstance(error, SchemaTooNew)
    assert "version 99" in str(error)


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "virtiofs"])
async def test_a_network_file_system_is_refused(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    share = tmp_path / "my share"
    share.mkdir()
    point = str(share).replace(" ", r"\040")
    table = tmp_path / "mountinfo"
    table.write_text(
        f"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n36 22 0:32 / {point} rw,noatime shared:1 - {kind} server:/x rw\n"
    )
    monkeypatch.setattr(mounts, "_MOUNTS", table)
    error = await refusal(f"sqlite:///{share}/leases.db")
    assert isinstance(error, ConfigurationError)
    assert f"is on a network file system ({kind})" in str(error)
    async with AsyncInterlock(f"sqlite:///{tmp_path}/leases.db"):
        pass


async def test_a_clock_of_ones_own_is_refused(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = tmp_path / "offsets"
    offsets.write_text("monotonic           0         0\nboottime       86400         0\n")
    monkeypatch.setattr(boot, "_OFFSETS", offsets)
    boot.boot_id.cache_clear()
    try:
        with pytest.raises(ConfigurationError, match="time namespace"):
            await AsyncInterlock(url).lease("feeds").acquire()
    finally:
        monkeypatch.undo()
        boot.boot_id.cache_clear()
