"""Instances of a real `interlock up`, from the key in its data directory to a connection over TLS."""

import asyncio
import base64
import json
import re
import signal
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import psycopg
import pytest

from interlock.embedded import Cluster
from interlock.sealing import Opener
from interlock.stores.postgres import AdvisoryKey
from support.local_instances import FIRST_PORT, end_all
from support.postgres import execute
from support.programs import interlock
from support.up_process import Starter, Up, data_directory, replicas
from support.waiting import eventually

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "up.md").read_text(encoding="utf-8")
PORTS = f"{FIRST_PORT}-{FIRST_PORT + 39}"


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A data directory that was used before, because creating one takes longer than the tests."""
    with data_directory() as data:
        Cluster(data / "postgres").create()
        yield data


@pytest.fixture
def data(made: Path) -> Iterator[Path]:
    yield made
    end_all(made / "instances")
    Cluster(made / "postgres").stop("immediate")


@pytest.fixture
def start(data: Path) -> Iterator[Starter]:
    with replicas() as start:

        def start_here(*args: str, **env: str) -> Up:
            return start("--data-dir", str(data), *args, INTERLOCK_INSTANCE_PORTS=PORTS, **env)

        yield start_here


class Client:
    """A client with the address and the key that a command on this machine finds."""

    def __init__(self, data: Path, server: Path | None = None) -> None:
        if server is None:
            [server] = (data / "servers").glob("*.json")
        self.server = json.loads(server.read_text())
        self._key = (data / "api-key").read_text().strip()

    def ask(self, method: str, path: str, status: int, **body: Any) -> Any:
        # There is no TLS here, and loading the certificates that httpx would trust takes longer than the request.
        answer = httpx.request(
            method,
            f"{self.server['url']}/api/v1{path}",
            headers={"Authorization": f"Bearer {self._key}"},
            json=body or None,
            timeout=30,
            trust_env=False,
            verify=False,  # noqa: S501
        )
        assert answer.status_code == status, answer.text
        return answer.json()

    @contextmanager
    def following(self, path: str) -> Iterator[Iterator[str]]:
        headers = {"Authorization": f"Bearer {self._key}"}
        url = f"{self.server['url']}/api/v1{path}&follow=true"
        with httpx.stream("GET", url, headers=headers, timeout=30, trust_env=False, verify=False) as answer:  # noqa: S501
            yield answer.iter_lines()

    def settled(self, name: str) -> Any:
        def look() -> Any:
            found = self.ask("GET", f"/instances/{name}", 200)
            return None if found["working"] else found

        return eventually(look)

    def password(self, instance: Any) -> str:
        opener = Opener()
        asked = {"public_key": base64.b64encode(opener.public_key).decode()}
        answer = self.ask("POST", f"/instances/{instance['id']}/credential", 200, **asked)
        return opener.open(base64.b64decode(answer["sealed"]), instance["id"])


def query(instance: Any, password: str, statement: str) -> Any:
    """Run the statement as the owner, over TLS with a checked certificate."""
    where = instance["connection"]

    async def ask() -> Any:
        connection = await asyncpg.connect(
            host=where["host"],
            port=where["port"],
            user=where["user"],
            database=where["database"],
            password=password,
            ssl=ssl.create_default_context(cadata=where["ca"]),
        )
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    return asyncio.run(ask())


def test_an_instance_is_created_survives_a_restart_of_the_control_plane_and_is_deleted(
    start: Starter, data: Path
) -> None:
    first = start()
    first.wait_ready()
    client = Client(data)
    assert client.server["url"] == first.address()
    for file in (data / "api-key", *(data / "servers").glob("*.json")):
        assert file.stat().st_mode & 0o777 == 0o600
    assert client.ask("POST", "/instances", 202, name="shop", dns_name="shop.example.com")["state"] == "creating"
    shop = client.settled("shop")
    assert (shop["state"], shop["error"]) == ("running", None)
    password = client.password(shop)
    started = query(shop, password, "SELECT pg_postmaster_start_time()")
    taken = client.ask("POST", "/instances", 409, name="other", dns_name="Shop.Example.com")
    assert (taken["code"], taken["owner"]) == ("name_taken", shop["id"])

    with client.following(f"/instances/{shop['id']}/logs?lines=1") as lines:
        assert next(lines)
        first.process.send_signal(signal.SIGTERM)
        list(lines)  # the stream ends as a complete answer does
    assert first.process.wait(timeout=30) == 0
    assert "1 instance goes on running: shop.\n" in first.stdout
    assert list((data / "servers").glob("*.json")) == []
    assert query(shop, password, "SELECT pg_postmaster_start_time()") == started

    start().wait_ready()
    client = Client(data)
    assert query(client.ask("GET", "/instances/shop", 200), client.password(shop), "SELECT 1") == 1
    client.ask("DELETE", "/instances/shop", 202)
    assert client.settled(shop["id"])["state"] == "deleted"
    assert not (data / "instances" / shop["id"]).exists()
    assert client.ask("POST", "/instances", 202, name="shop", dns_name="shop.example.com")["id"] != shop["id"]
    assert client.settled("shop")["state"] == "running"
    assert password not in first.said


@pytest.mark.exhaustive
def test_work_that_a_stop_interrupts_goes_on_after_the_next_start(start: Starter, data: Path) -> None:
    first = start()
    first.wait_ready()
    asked_for = Client(data).ask("POST", "/instances", 202, name="orders")
    eventually((data / "instances" / asked_for["id"]).exists)
    assert first.stop() == 0
    assert "Traceback" not in first.said
    start().wait_ready()
    orders = Client(data).settled("orders")
    assert (orders["id"], orders["state"], orders["error"]) == (asked_for["id"], "running", None)


@pytest.mark.exhaustive
def test_the_file_of_a_killed_replica_is_removed_by_the_next_one(start: Starter, data: Path) -> None:
    first = start()
    first.wait_ready()
    [left] = (data / "servers").glob("*.json")
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    second = start()
    second.wait_ready()
    assert not left.exists()
    assert Client(data).server["url"] == second.address()
    assert Client(data).server["pid"] == second.process.pid


def test_two_on_one_directory_have_one_key(start: Starter, data: Path) -> None:
    (data / "api-key").unlink(missing_ok=True)
    one, other = start(), start()
    one.wait_ready()
    other.wait_ready()
    for server in (data / "servers").glob("*.json"):
        Client(data, server).ask("GET", "/instances", 200)
    assert {Client(data, server).server["url"] for server in (data / "servers").glob("*.json")} == {
        one.address(),
        other.address(),
    }
    assert list(data.glob(".api-key*")) == []


def test_another_directory_on_the_same_database_is_refused_until_the_claim_is_released(
    interlock_url: str, tmp_path: Path
) -> None:
    elsewhere = ("--database", interlock_url, "--data-dir", str(tmp_path / "elsewhere"))
    with replicas() as start:
        first = start(url=interlock_url)
        first.wait_ready()
        [(owner,)] = execute(interlock_url, "SELECT owner FROM interlock.claim WHERE scope = 'driver'")
        second = start(*elsewhere)
        assert second.process.wait(timeout=50) == 78
        last = second.stderr.splitlines()[-1]
        assert last.startswith("interlock: The instances of the driver local are on ")
        assert owner in last
        assert not (tmp_path / "elsewhere" / "api-key").exists()
        assert first.is_ready()
        assert first.stop() == 0

        [released] = re.findall(r"```sql\n(.*?);?\n```", PAGE, re.DOTALL)
        assert execute(interlock_url, released) == [("released",)]
        start(*elsewhere).wait_ready()
        assert (tmp_path / "elsewhere" / "api-key").exists()


def test_a_named_database_is_served_without_a_writable_data_directory(interlock_url: str) -> None:
    with replicas() as start:
        up = start(url=interlock_url, INTERLOCK_DATA_DIR="/proc/interlock", INTERLOCK_DRIVERS="kubernetes")
        up.wait_ready()
        assert up.logs("key.none")
        made = interlock("key", "create", "operator", url=interlock_url)
        headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
        address = f"{up.address()}/api/v1/instances"
        answer = httpx.get(address, headers=headers, timeout=30, trust_env=False, verify=False)  # noqa: S501
        assert (answer.status_code, answer.json()) == (200, {"items": [], "next": None})
        assert up.stop() == 0


def test_it_is_ready_once_it_takes_part_in_the_work_and_can_be_stopped_before(interlock_url: str) -> None:
    lock = AdvisoryKey.of("interlock engine", "interlock")
    with replicas() as start, psycopg.connect(interlock_url, autocommit=True) as other:
        other.execute(
            "SELECT pg_advisory_lock(%s::int, %s::int)", lock
        )  # as a replica does that creates the engine's tables
        stopped = start(url=interlock_url)
        eventually(lambda: stopped.phase() == "joining")
        assert stopped.stop() == 0
        assert "Traceback" not in stopped.said
        waiting = start(url=interlock_url)
        eventually(lambda: waiting.phase() == "joining")
        assert not waiting.is_ready()
        answer = waiting.get("/api/v1/instances")
        assert (answer.status_code, answer.json()["code"]) == (503, "starting")
        other.execute("SELECT pg_advisory_unlock(%s::int, %s::int)", lock)
        waiting.wait_ready()
        assert waiting.get("/api/v1/instances").status_code == 401
