"""The claim that binds the driver local to one machine and one data directory."""

from pathlib import Path

import psycopg
import pytest

from interlock.errors import DataDirectoryUnusable, DriverElsewhere
from interlock.server import local_driver_claim
from interlock.server.local_driver_claim import claim_local_driver, local_owner
from support.postgres import execute


async def claimed(url: str, owner: str, *, embedded: bool = False) -> None:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await claim_local_driver(connection, "interlock", owner, embedded=embedded)


def owners(url: str) -> list[str]:
    query = "SELECT owner FROM interlock.claim WHERE scope = 'driver' AND released_at IS NULL"
    return [owner for (owner,) in execute(url, query)]


async def test_the_same_owner_is_confirmed_and_another_is_refused(interlock_url: str) -> None:
    for _ in range(2):
        await claimed(interlock_url, "here")
    with pytest.raises(DriverElsewhere, match="are on here, and this replica is on there") as refusal:
        await claimed(interlock_url, "there")
    assert (refusal.value.owner, owners(interlock_url)) == ("here", ["here"])


async def test_with_an_embedded_database_the_claim_is_transferred_each_time(interlock_url: str) -> None:
    for owner in ("here", "there", "here", "there"):
        await claimed(interlock_url, owner, embedded=True)
        assert owners(interlock_url) == [owner]


async def test_a_released_claim_can_be_claimed_again(interlock_url: str) -> None:
    await claimed(interlock_url, "here")
    execute(interlock_url, "SELECT interlock.release_claim_v1('driver', 'local', 'here')")
    await claimed(interlock_url, "here")
    assert owners(interlock_url) == ["here"]


def test_an_owner_is_stable_and_differs_between_directories(tmp_path: Path) -> None:
    assert local_owner(tmp_path / "one") == local_owner(tmp_path / "one")
    assert local_owner(tmp_path / "one") != local_owner(tmp_path / "two")
    assert local_owner(tmp_path / "one").endswith(f":{tmp_path / 'one'}")


def test_without_a_machine_id_the_directory_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_driver_claim, "_MACHINE_ID_FILES", (tmp_path / "none",))
    first = local_owner(tmp_path / "volume")
    monkeypatch.setattr("socket.gethostname", lambda: "another")
    assert local_owner(tmp_path / "volume") == first


def test_a_copied_directory_on_another_machine_is_another_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_driver_claim, "_MACHINE_ID_FILES", (tmp_path / "number",))
    (tmp_path / "number").write_text("1111\n")
    first = local_owner(tmp_path / "data")
    (tmp_path / "number").write_text("2222\n")
    assert local_owner(tmp_path / "data") != first


@pytest.mark.parametrize("letter", ["x", "ж", "数"])
async def test_an_owner_with_a_long_path_can_claim(interlock_url: str, tmp_path: Path, letter: str) -> None:
    deep = local_owner(tmp_path.joinpath(*[letter * 80] * 3))
    await claimed(interlock_url, deep)
    assert owners(interlock_url) == [deep]


def test_the_error_for_an_unusable_directory_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataDirectoryUnusable, match="INTERLOCK_DRIVERS"):
        local_owner(tmp_path / "file" / "data")
