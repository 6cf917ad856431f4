"""The driver local serves one place, by a claim."""

from pathlib import Path

import psycopg
import pytest

from interlock.errors import DataDirectoryUnusable, DriverElsewhere
from interlock.server import machine
from interlock.server.machine import claim_local, place
from support.postgres import execute


async def claimed(url: str, owner: str, *, embedded: bool = False) -> None:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await claim_local(connection, "interlock", owner, embedded=embedded)


def owners(url: str) -> list[str]:
    query = "SELECT owner FROM interlock.claim WHERE scope = 'driver' AND released_at IS NULL"
    return [owner for (owner,) in execute(url, query)]


async def test_the_same_place_again_is_confirmed_and_another_is_refused(interlock_url: str) -> None:
    for _ in range(2):
        await claimed(interlock_url, "here")
    with pytest.raises(DriverElsewhere, match="those of here, and this is there") as refusal:
        await claimed(interlock_url, "there")
    assert (refusal.value.owner, owners(interlock_url)) == ("here", ["here"])


async def test_where_the_database_is_embedded_the_claim_moves_with_it_and_may_come_back(interlock_url: str) -> None:
    for owner in ("here", "there", "here", "there"):
        await claimed(interlock_url, owner, embedded=True)
        assert owners(interlock_url) == [owner]


async def test_a_place_that_gave_the_driver_up_may_have_it_again(interlock_url: str) -> None:
    await claimed(interlock_url, "here")
    execute(interlock_url, "SELECT interlock.release_claim_v1('driver', 'local', 'here')")
    await claimed(interlock_url, "here")
    assert owners(interlock_url) == ["here"]


def test_a_place_is_the_same_each_time_and_another_directory_is_another(tmp_path: Path) -> None:
    assert place(tmp_path / "one") == place(tmp_path / "one")
    assert place(tmp_path / "one") != place(tmp_path / "two")
    assert place(tmp_path / "one").endswith(f":{tmp_path / 'one'}")


def test_a_container_is_known_by_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_MACHINE_ID", (tmp_path / "none",))
    first = place(tmp_path / "volume")
    monkeypatch.setattr("socket.gethostname", lambda: "another")
    assert place(tmp_path / "volume") == first


def test_a_copied_directory_elsewhere_is_another_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_MACHINE_ID", (tmp_path / "number",))
    (tmp_path / "number").write_text("1111\n")
    first = place(tmp_path / "data")
    (tmp_path / "number").write_text("2222\n")
    assert place(tmp_path / "data") != first


@pytest.mark.parametrize("letter", ["x", "ж", "数"])
async def test_a_place_with_a_long_name_can_be_claimed(interlock_url: str, tmp_path: Path, letter: str) -> None:
    deep = place(tmp_path.joinpath(*[letter * 80] * 3))
    await claimed(interlock_url, deep)
    assert owners(interlock_url) == [deep]


def test_a_place_that_cannot_be_written_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DataDirectoryUnusable, match="INTERLOCK_DRIVERS"):
        place(tmp_path / "file" / "data")
