"""Two replicas on one data directory make real instances, and one of them is killed in the middle."""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from interlock.embedded import Cluster, find_binaries
from support.components import required
from support.local_instances import FIRST_PORT, PG_BIN, end_all
from support.postgres import execute
from support.programs import interlock
from support.up_process import Starter, Up, data_directory, replicas
from support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.exhaustive

COUNT, SAME = 20, 5
SMALL = {"shared_buffers": "4MB", "max_connections": 20, "max_wal_senders": 0, "wal_level": "minimal"}
LONG = 400.0
HELD = "SELECT scope, count(*) FROM interlock.claim WHERE released_at IS NULL GROUP BY scope ORDER BY scope"


@pytest.fixture
def start() -> Iterator[Starter]:
    with replicas() as start:
        yield start


@pytest.fixture
def data() -> Iterator[Path]:
    with data_directory() as data:
        try:
            yield data
        finally:
            end_all(data / "instances")


class Plane:
    """A client of several replicas, which records every answer."""

    def __init__(self, data: Path, ups: list[Up]) -> None:
        self.ups = ups
        self.answers: list[str] = []
        self._key = (data / "api-key").read_text().strip()

    async def ask(self, method: str, path: str, body: Any = None, *, first: int = 0, key: str = "") -> httpx.Response:
        """Send the request to one replica after the other until one answers; with a key, it takes effect once."""
        headers = {"Authorization": f"Bearer {self._key}"} | ({"Idempotency-Key": f'"{key}"'} if key else {})
        give_up_at = time.monotonic() + PATIENCE
        while True:
            up = self.ups[first % len(self.ups)]
            try:
                async with httpx.AsyncClient(base_url=up.address(), trust_env=False, verify=False) as client:  # noqa: S501
                    answer = await client.request(method, f"/api/v1{path}", json=body, headers=headers, timeout=30)
            except httpx.TransportError:
                assert time.monotonic() < give_up_at
                first += 1
                continue
            self.answers.append(answer.text)
            return answer

    async def instances(self) -> list[dict[str, Any]]:
        answer = await self.ask("GET", "/instances?limit=200")
        assert answer.status_code == 200, answer.text
        return list(answer.json()["items"])


def servers(data: Path) -> list[str]:
    """The directories of instances in which a PostgreSQL server runs."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:  # it has ended
            continue
        if b"-D" in words and words[words.index(b"-D") + 1].startswith(os.fsencode(data / "instances")):
            found.append(os.fsdecode(words[words.index(b"-D") + 1]))
    return found


def directories(data: Path) -> set[str]:
    return {path.name for path in (data / "instances").iterdir() if path.is_dir()}


def dumped(url: str) -> str:
    own = find_binaries(PG_BIN).bin_dir / "pg_dump"
    program = own if own.exists() else required("pg_dump", package="postgresql-client")
    return subprocess.run([str(program), url, "--inserts"], capture_output=True, text=True, check=True).stdout


async def settled(plane: Plane, count: int) -> list[dict[str, Any]]:
    """Returns the instances once no work is left and there are `count` of them."""
    give_up_at = time.monotonic() + LONG
    while True:
        found = await plane.instances()
        if len(found) == count and not any(one["working"] for one in found):
            return found
        assert time.monotonic() < give_up_at, found
        await asyncio.sleep(0.1)


@pytest.mark.timeout(900)
async def test_twenty_creations_survive_the_kill_of_a_replica_without_loss_or_leftovers(
    start: Starter, data: Path, record_property: Callable[[str, object], None]
) -> None:
    ports = f"{FIRST_PORT}-{FIRST_PORT + COUNT - 1}"
    ups = [start("--data-dir", str(data), INTERLOCK_INSTANCE_PORTS=ports) for _ in range(2)]
    for up in ups:
        await asyncio.to_thread(up.wait_ready)
    plane, everybody = Plane(data, ups), [*ups]
    url = Cluster(data / "postgres").url()

    async def create(number: int) -> httpx.Response:
        wanted: dict[str, Any] = {"name": f"db{number}", "parameters": SMALL}
        if number < SAME:
            wanted["dns_name"] = "same.example.com"
        return await plane.ask("POST", "/instances", wanted, first=number, key=f"create-{number}")

    begun_at = time.monotonic()
    creations = asyncio.gather(*map(create, range(COUNT)))
    made = "SELECT 1 FROM interlock.event WHERE kind = 'provisioned'"
    await asyncio.to_thread(eventually, lambda: execute(url, made), within=LONG)
    killed_at = time.monotonic()
    ups.pop(0).kill()
    unfinished = execute(url, "SELECT count(*) FROM interlock.instance WHERE working")[0][0]

    answers = await creations
    refused = [answer.json() for answer in answers if answer.status_code == 409]
    asked = [answer.json() for answer in answers if answer.status_code == 202]
    assert (len(asked), len(refused)) == (COUNT - SAME + 1, SAME - 1), [answer.text for answer in answers]
    [owner] = [one["id"] for one in asked if one["dns_name"]]
    assert {(one["code"], one["owner"]) for one in refused} == {("name_taken", owner)}

    found = await settled(plane, len(asked))
    finished_at = time.monotonic()
    assert {one["id"]: (one["state"], one["error"]) for one in found} == {one["id"]: ("running", None) for one in asked}
    ids = {one["id"] for one in found}
    assert directories(data) == ids
    assert len(servers(data)) == len(ids)
    assert len({one["connection"]["port"] for one in found}) == len(ids)
    assert execute(url, HELD) == [("dns", 1), ("driver", 1), ("instance", len(ids))]
    assert (await plane.ask("POST", "/drift/look")).json()["items"] == []

    before = (data / "instances" / owner / "password").read_text()
    changed = await plane.ask("POST", f"/instances/{owner}/reset-password", key="reset")
    assert changed.status_code == 202
    await settled(plane, len(ids))
    passwords = [before, *((data / "instances" / each / "password").read_text() for each in ids)]
    assert len(set(passwords)) == len(passwords)

    backed_up = await plane.ask("POST", f"/instances/{owner}/backups", {}, key="backup")
    assert backed_up.status_code == 202, backed_up.text
    made = "SELECT state FROM interlock.instance_backup WHERE NOT working"
    assert await asyncio.to_thread(eventually, lambda: execute(url, made)) == [("made",)]

    deleted = await plane.ask("POST", "/instances/bulk-delete", {"instances": sorted(ids)}, key="delete")
    assert [item["status"] for item in deleted.json()["items"]] == [202] * len(ids)
    assert await settled(plane, 0) == []
    assert directories(data) == set()
    assert servers(data) == []
    assert execute(url, HELD) == [("driver", 1)]
    assert execute(url, "SELECT DISTINCT state, names_freed_at IS NULL FROM interlock.instance") == [("deleted", False)]
    assert (await plane.ask("POST", "/drift/look")).json()["items"] == []

    told = await asyncio.to_thread(interlock, "instance", "drift", "--data-dir", str(data))
    assert told.stdout.startswith("No drift is known.\nThe driver local was compared at "), told.stderr

    everything = "".join([dumped(url), *plane.answers, *(up.said for up in everybody)])
    assert owner in everything
    assert not [password for password in passwords if password.strip() in everything]
    record_property(
        "figure",
        f"{COUNT} creates at once on two replicas, {SAME} for one DNS name: {len(asked)} running after "
        f"{finished_at - begun_at:.1f} s; one replica killed after {killed_at - begun_at:.1f} s, with {unfinished} "
        f"unfinished, which took {finished_at - killed_at:.1f} s from there",
    )
