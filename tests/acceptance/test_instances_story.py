"""The first minutes of a new user: `interlock up`, an instance, psql, a name that is taken, and free again."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interlock.embedded import find_binaries
from support.local_instances import FIRST_PORT, PG_BIN, end_all
from support.losing_proxy import losing_proxy
from support.programs import interlock, started
from support.up_process import Up, data_directory, replicas
from support.waiting import eventually

pytestmark = pytest.mark.timeout(240)
README = Path(__file__).parents[2] / "README.md"
CREATE, CONNECT, CREATE_OTHER, DELETE = map(
    shlex.split, re.findall(r"^interlock instance (.*?) +#", README.read_text(), re.MULTILINE)
)
NAME = "mydb.example.com"
OVER_TLS = "SELECT ssl, current_user FROM pg_stat_ssl WHERE pid = pg_backend_pid()"


class Machine(NamedTuple):
    """A machine on which `interlock up` runs, where commands find it without settings."""

    up: Up
    data: Path

    def run(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return interlock("instance", *args, INTERLOCK_DATA_DIR=str(self.data), **env)

    def json(self, *args: str) -> Any:
        done = self.run(*args, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with data_directory() as data, replicas() as start:
        up = start("--data-dir", str(data), INTERLOCK_INSTANCE_PORTS=f"{FIRST_PORT}-{FIRST_PORT + 39}")
        try:
            up.wait_ready()
            yield Machine(up, data)
        finally:
            up.stop()
            end_all(data / "instances")


@pytest.fixture(scope="module")
def shop(machine: Machine) -> str:
    """A running instance on `machine`."""
    assert machine.run("create", "shop", "--wait").returncode == 0
    return "shop"


def test_the_story_of_a_new_user(machine: Machine) -> None:
    created = machine.run(*CREATE)
    assert (created.returncode, created.stdout.count("\n")) == (0, 1), created.stderr
    assert created.stdout.startswith("mydb is running at 127.0.0.1:")
    steps = created.stderr.splitlines()
    assert [step for step in steps if step in ("mydb: checked", "mydb: provisioned", "mydb: running")] == [
        "mydb: checked",
        "mydb: provisioned",
        "mydb: running",
    ]
    assert "mydb: published" not in steps, "no DNS driver publishes the name"

    psql = machine.run(*CONNECT, "--", "-XAtc", OVER_TLS)
    assert (psql.returncode, psql.stdout) == (0, "t|mydb\n"), psql.stderr

    refused = machine.run(*CREATE_OTHER)
    [mydb] = machine.json("list", "db")
    assert (refused.returncode, refused.stdout) == (73, "")
    assert f"The DNS name '{NAME}' belongs to the instance mydb ({mydb['id']}, running)" in refused.stderr

    deleted = machine.run(*DELETE)
    assert (deleted.returncode, deleted.stdout) == (0, "mydb is deleted.\n"), deleted.stderr
    assert machine.json("list", "db") == []
    assert not (machine.data / "instances" / mydb["id"]).exists()

    unknown = machine.run("show", "mydb")
    assert (unknown.returncode, unknown.stdout) != (0, "")
    assert "There is no instance 'mydb': `interlock instance list` shows those that exist." in unknown.stderr

    again = machine.run(*CREATE_OTHER, "--wait")
    assert (again.returncode, again.stdout[:18]) == (0, "otherdb is running"), again.stderr
    assert machine.run("delete", "otherdb", "--yes", "--wait").returncode == 0


def test_psql_of_the_wheel_is_used_where_there_is_no_other(machine: Machine, shop: str, tmp_path: Path) -> None:
    without_psql = tmp_path / "bin"
    without_psql.mkdir()
    settings = tmp_path / "interlock.toml"
    settings.write_text(f'pg_bin = "{find_binaries(PG_BIN).bin_dir}"')
    done = machine.run("connect", "--config", str(settings), shop, "--", "-XAtc", OVER_TLS, PATH=str(without_psql))
    assert (done.returncode, done.stdout, done.stderr) == (0, "t|shop\n", "")


def test_no_password_is_in_arguments_or_output(machine: Machine, shop: str) -> None:
    password = machine.run("password", shop).stdout.strip()
    assert len(password) > 20
    assert machine.json("password", shop) == {"password": password}
    looks = [machine.run(*words.split(), shop) for words in ("show", "show --json", "events", "logs -n 1000")]
    said = "".join(done.stdout + done.stderr for done in looks)
    assert "database system is ready" in said
    assert password not in said + machine.up.said
    at_psql = ("instance", "connect", shop, "--", "-XAtc", "SELECT pg_sleep(600)")
    with started(*at_psql, INTERLOCK_DATA_DIR=str(machine.data)) as psql:
        process = Path("/proc") / str(psql.pid)
        eventually(lambda: (process / "cmdline").read_bytes().partition(b"\0")[0].endswith(b"psql"))
        its_own = (process / "environ").read_bytes().split(b"\0")
        assert {f"PGPASSWORD={password}".encode(), b"PGSSLMODE=verify-full"} <= set(its_own)
        assert _showing(password) == []


def test_changing_waiting_and_watching(machine: Machine, shop: str) -> None:
    assert machine.run("set", shop, "work_mem=5MB", "--wait").stdout.startswith("shop is running")
    assert machine.json("show", shop)["parameters"] == {"work_mem": "5MB"}
    assert machine.run("connect", shop, "--", "-XAtc", "SHOW work_mem").stdout == "5MB\n"
    assert machine.run("stop", shop).returncode == 0
    assert machine.run("wait", shop, "--for", "stopped").stdout == "shop is stopped.\n"
    refused = machine.run("stop", shop)
    assert (refused.returncode, refused.stderr.count("\n")) == (65, 1)
    with started("instance", "watch", shop, "--json", INTERLOCK_DATA_DIR=str(machine.data)) as watching:
        assert watching.process.stdout
        assert json.loads(watching.process.stdout.readline())["state"] == "stopped"
        assert machine.run("start", shop).returncode == 0
        while json.loads(watching.process.stdout.readline()).get("event") != "come_up":
            pass
    old = machine.run("password", shop).stdout
    assert machine.run("reset-password", shop, "--wait").returncode == 0
    assert machine.run("password", shop).stdout not in ("", old)
    assert machine.run("connect", shop, "--", "-XAtc", "SELECT 1").stdout == "1\n"


@pytest.mark.exhaustive
def test_many_from_a_file(machine: Machine, tmp_path: Path) -> None:
    wanted = tmp_path / "wanted.toml"
    wanted.write_text('[[instances]]\nname = "one"\n[[instances]]\nname = "One"\n[[instances]]\nname = "no name"\n')
    done = machine.run("create", "--file", str(wanted), "--wait")
    assert (done.returncode, done.stdout.count("\n")) == (1, 1), done.stderr
    assert done.stdout.startswith("one is running at")
    assert "2 of 3 instances failed" in done.stderr
    assert machine.run("delete", "one", "unknown", "--yes", "--wait").returncode == 1
    assert machine.json("list", "one") == []


@pytest.mark.exhaustive
def test_a_creation_whose_answer_is_lost_is_repeated_and_carried_out_once(machine: Machine) -> None:
    with losing_proxy(machine.up.address()) as proxy:
        through = {"INTERLOCK_SERVER": proxy.url, "INTERLOCK_API_KEY": (machine.data / "api-key").read_text().strip()}
        created = machine.run("create", "once", **through)
        assert (created.returncode, created.stderr) == (0, "")
        assert proxy.passed_on == [("POST", "/api/v1/instances", 202)] * 2
    [once] = machine.json("list", "once", "--deleted")
    assert machine.run("delete", once["id"], "--yes", "--wait").returncode == 0


def test_a_wrong_key_and_a_missing_server(machine: Machine) -> None:
    wrong = machine.run("list", INTERLOCK_API_KEY="ilk_" + "0" * 43)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (77, 1)
    assert "does not accept this key" in wrong.stderr
    there = {"INTERLOCK_SERVER": machine.up.address()}
    assert machine.run("list", **there).returncode == 0
    absent = interlock("instance", "list", INTERLOCK_DATA_DIR=str(machine.data / "nowhere"))
    assert (absent.returncode, absent.stderr.count("\n")) == (69, 1)


def _showing(secret: str) -> list[str]:
    """Returns the processes that have the secret in their arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if secret.encode() in (process / "cmdline").read_bytes():
                found.append(process.name)
    return found
