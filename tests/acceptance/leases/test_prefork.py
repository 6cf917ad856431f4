"""A real server that forks: gunicorn loads a service that has used its leases already, and then forks workers."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.lease_engine import holder
from support.postgres import execute
from support.programs import environment
from support.waiting import eventually

WORKERS, REQUESTS = 3, 60


class Server:
    """Three workers behind one port, which gunicorn reports once it listens."""

    def __init__(self, url: str, log: Path) -> None:
        self._log = log
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "gunicorn", "--preload", "--workers", str(WORKERS), "--threads", "4"),
                *("--bind", "127.0.0.1:0", "--worker-tmp-dir", str(log.parent), "--error-logfile", str(log)),
                "support.prefork_app:application",
            ],
            env=environment(url, PYTHONPATH=str(Path(__file__).parents[2])),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.address = eventually(self._listens)

    def ask(self, path: str, timeout: float = 60) -> Any:
        return httpx.get(f"{self.address}{path}", timeout=timeout).json()

    def _listens(self) -> str | None:
        said = self._log.read_text() if self._log.exists() else ""
        assert self.process.poll() is None, said
        marks = [line.split("Listening at: ")[1].split()[0] for line in said.splitlines() if "Listening at: " in line]
        return marks[0] if marks else None


@pytest.fixture
def server(interlock_url: str, tmp_path: Path) -> Iterator[Server]:
    execute(interlock_url, "CREATE TABLE counter AS SELECT 0 AS value")
    execute(interlock_url, "CREATE TABLE holder (pid integer)")
    server = Server(interlock_url, tmp_path / "gunicorn.log")
    try:
        yield server
    finally:
        server.process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            server.process.wait(40)
        server.process.kill()
        server.process.wait()


def test_workers_share_leases_that_were_used_before_they_were_forked(server: Server, interlock_url: str) -> None:
    of_the_first_process = holder(interlock_url, "before the fork")
    with ThreadPoolExecutor(12) as clients:
        pids = set(clients.map(lambda _: server.ask("/count"), range(REQUESTS)))
        lost = set(clients.map(lambda _: server.ask("/look"), range(REQUESTS)))
    assert execute(interlock_url, "SELECT value FROM counter") == [(REQUESTS,)]
    assert len(pids) > 1
    assert server.process.pid not in pids
    assert lost == {True}, "it is the first process's"
    assert holder(interlock_url, "before the fork") == of_the_first_process is not None
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(40) == 0


@pytest.mark.exhaustive
def test_a_worker_that_is_killed_under_a_lease_is_replaced_and_the_next_one_gets_it(
    server: Server, interlock_url: str
) -> None:
    with ThreadPoolExecutor(1) as client:
        holding = client.submit(server.ask, "/hold")
        [[pid]] = eventually(lambda: execute(interlock_url, "SELECT pid FROM holder"))
        subprocess.run(["kill", "-9", str(pid)], check=True)
        with pytest.raises((httpx.HTTPError, HTTPException)):
            holding.result()
    assert server.ask("/count") != pid
    assert execute(interlock_url, "SELECT value FROM counter") == [(1,)]
