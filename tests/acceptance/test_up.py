"""`interlock up` on a new data directory, stopped, restarted, shared, and with its PostgreSQL killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.embedded import Cluster, with_socket_parameter
from support.postgres import execute
from support.programs import INTERLOCK, environment, interlock
from support.up_process import Starter, data_directory, replicas
from support.waiting import eventually


@pytest.fixture
def start() -> Iterator[Starter]:
    with replicas() as start:
        yield start


@pytest.fixture
def fresh() -> Iterator[Path]:
    """A data directory that does not exist yet."""
    with data_directory() as data:
        yield data


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """A data directory that was used before, because creating one takes longer than the tests."""
    with data_directory() as data:
        Cluster(data / "postgres").create()
        yield data


@pytest.fixture
def data(made: Path) -> Iterator[Path]:
    yield made
    Cluster(made / "postgres").stop("immediate")


@pytest.fixture
def postgres(data: Path) -> Cluster:
    return Cluster(data / "postgres")


def test_it_starts_on_a_new_directory_keeps_its_data_and_leaves_nothing_running(start: Starter, fresh: Path) -> None:
    postgres = Cluster(fresh / "postgres")
    first = start("--data-dir", str(fresh))
    first.wait_ready()
    assert first.get("/health/startup").json()["phase"] == "ready"
    assert f"Interlock is ready at {first.address()}" in first.stdout
    assert str(fresh) in first.stdout
    execute(postgres.url(), "CREATE TABLE kept AS SELECT 42 AS answer")
    assert first.stop(signal.SIGTERM) == 0
    assert postgres.pid() is None

    second = start("--data-dir", str(fresh))
    second.wait_ready()
    assert execute(postgres.url(), "SELECT answer FROM kept") == [(42,)]
    assert second.stop(signal.SIGINT) == 0
    assert postgres.pid() is None
    assert "Traceback" not in first.said + second.said


def test_other_commands_find_its_database_by_the_data_directory(start: Starter, data: Path) -> None:
    start("--data-dir", str(data)).wait_ready()
    done = interlock("schema", "status", INTERLOCK_DATA_DIR=str(data))
    assert (done.returncode, done.stderr) == (0, "")
    assert "state: current" in done.stdout


def test_a_program_that_names_no_database_uses_its_database(start: Starter, data: Path) -> None:
    start("--data-dir", str(data)).wait_ready()
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from interlock import Interlock\nwith Interlock().lease('feeds') as grant: print(grant.token)",
        ],
        env=environment(INTERLOCK_DATA_DIR=str(data)),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 0


def test_a_shell_that_evaluates_interlock_env_reaches_its_database(
    start: Starter, data: Path, postgres: Cluster
) -> None:
    start("--data-dir", str(data)).wait_ready()
    script = f'eval "$({INTERLOCK} env --data-dir "$0")"; printf %s "$INTERLOCK_DATA_DIR $INTERLOCK_DATABASE_URL"'
    done = subprocess.run(
        ["sh", "-c", script, str(data)], env=environment(), capture_output=True, text=True, timeout=50, check=True
    )
    directory, url = done.stdout.split(" ")
    assert (directory, done.stderr) == (str(data), "")
    assert url == with_socket_parameter(postgres.url())
    assert execute(url, "SELECT 1") == [(1,)]


def test_it_starts_its_own_database_also_in_a_shell_that_evaluated_interlock_env(
    start: Starter, data: Path, postgres: Cluster
) -> None:
    postgres.start()
    url = postgres.url()
    postgres.stop()
    up = start("--data-dir", str(data), "--database", url)
    up.wait_ready()
    assert postgres.is_running()
    assert up.stop() == 0
    assert not postgres.is_running()


def test_two_on_one_data_directory_share_a_cluster_that_the_last_one_stops(
    start: Starter, data: Path, postgres: Cluster
) -> None:
    one, other = start("--data-dir", str(data)), start("--data-dir", str(data))
    one.wait_ready()
    other.wait_ready()
    pid = postgres.pid()
    assert one.stop() == 0
    assert postgres.pid() == pid
    assert other.is_ready()
    assert other.stop() == 0
    assert postgres.pid() is None


def test_no_password_is_shown_anywhere(start: Starter, data: Path) -> None:
    up = start("--data-dir", str(data), INTERLOCK_LOG_LEVEL="debug")
    up.wait_ready()
    password = (data / "postgres" / "password").read_text()
    assert len(password) > 10
    shown = up.said + "".join(up.get(path).text for path in ("/", "/health/startup", "/health/ready"))
    assert password not in shown
    assert f"interlock env --data-dir {data})" in up.get("/").text


def test_a_killed_postgres_is_restarted(start: Starter, data: Path, postgres: Cluster) -> None:
    up = start("--data-dir", str(data))
    up.wait_ready()
    killed = postgres.pid()
    assert killed
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: up.logs("database.restarted"))
    up.wait_ready()
    assert postgres.pid() not in (None, killed)
    assert up.stop() == 0
    assert postgres.pid() is None


def test_repeated_requests_to_stop_do_not_leave_postgres_running(start: Starter, data: Path, postgres: Cluster) -> None:
    up = start("--data-dir", str(data))
    up.wait_ready()

    def has_ended_when_asked_again() -> bool:
        up.process.send_signal(signal.SIGINT)
        up.process.send_signal(signal.SIGTERM)
        return up.process.poll() is not None

    eventually(has_ended_when_asked_again)
    assert (up.process.returncode, "Traceback" in up.said) == (0, False)
    assert postgres.pid() is None


def test_only_sigterm_stops_it_if_it_was_started_with_other_signals_ignored(start: Starter, data: Path) -> None:
    up = start("--data-dir", str(data), ignoring="INT HUP")
    up.wait_ready()
    up.process.send_signal(signal.SIGINT)
    up.process.send_signal(signal.SIGHUP)
    assert up.is_ready()  # a stop would have begun before this answer
    assert not up.logs("server.stopping")
    assert up.stop(signal.SIGTERM) == 0


@pytest.mark.exhaustive
def test_ctrl_c_during_the_creation_of_postgres_leaves_a_directory_that_can_be_used_again(
    start: Starter, fresh: Path
) -> None:
    first = start("--data-dir", str(fresh))
    eventually((fresh / "postgres" / "data.new").exists)
    os.killpg(first.process.pid, signal.SIGINT)  # as a terminal does: PostgreSQL's initdb gets it too
    assert first.process.wait(timeout=30) == 0
    assert Cluster(fresh / "postgres").pid() is None
    assert ("Interlock is ready" in first.stdout, "Traceback" in first.said) == (False, False)
    start("--data-dir", str(fresh)).wait_ready()
