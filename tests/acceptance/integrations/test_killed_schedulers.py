"""APScheduler and Celery beat, two processes each: the leader is killed, or stands still, and the other goes on."""

import json
import os
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from support.postgres import execute
from support.scheduler_worker import TABLES, Job
from support.waiting import eventually

pytestmark = pytest.mark.exhaustive

TESTS = Path(__file__).parents[2]


@contextmanager
def processes(command: list[str], count: int, log: Path, **env: str) -> Iterator[dict[int, subprocess.Popen[bytes]]]:
    """By their numbers; they are killed in the end."""
    paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(TESTS)]))
    with log.open("wb") as complaints:
        started = [
            subprocess.Popen(command, env=os.environ | env | {"PYTHONPATH": paths}, stderr=complaints)
            for _ in range(count)
        ]
    try:
        yield {process.pid: process for process in started}
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert "Traceback" not in log.read_text()


def leader(url: str, lease: str, among: dict[int, Any]) -> int:
    def look() -> int | None:
        rows = execute(url, "SELECT pid FROM interlock.held_v1(%s) WHERE name = %s", lease, lease)
        return next((pid for (pid,) in rows if pid in among), None)

    pid = eventually(look)
    assert pid
    return pid


def fired(url: str, pid: int, at_least: int) -> bool:
    return bool(execute(url, "SELECT count(*) FROM fired WHERE pid = %s", pid)[0][0] >= at_least)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_apscheduler_goes_on_in_another_replica_and_fires_no_tick_twice(
    interlock_url: str, tmp_path: Path, how: signal.Signals
) -> None:
    execute(interlock_url, TABLES)
    terms = 3 if how == signal.SIGSTOP else 2
    command = [sys.executable, "-m", "support.scheduler_worker", json.dumps(asdict(Job(interlock_url)))]
    with processes(command, 2, tmp_path / "log") as replicas:
        first = leader(interlock_url, "nightly", replicas)
        eventually(lambda: fired(interlock_url, first, 5))
        replicas[first].send_signal(how)
        others = {pid: process for pid, process in replicas.items() if pid != first}
        second = leader(interlock_url, "nightly", others)
        eventually(lambda: fired(interlock_url, second, 5))
        if how == signal.SIGSTOP:
            replicas[first].send_signal(signal.SIGCONT)
            [[before]] = execute(interlock_url, "SELECT count(*) FROM fired WHERE pid = %s", second)
            eventually(lambda: fired(interlock_url, second, before + 5))
            replicas[second].kill()
            [[before]] = execute(interlock_url, "SELECT count(*) FROM fired WHERE pid = %s", first)
            eventually(lambda: fired(interlock_url, first, before + 5))
        done = "SELECT count(DISTINCT token) FROM run WHERE phase = 'done'"
        eventually(lambda: execute(interlock_url, done)[0][0] >= terms)
    rows = execute(interlock_url, "SELECT tick, token FROM fired ORDER BY position")
    ticks = [tick for tick, _ in rows]
    assert len(ticks) == len(set(ticks)), "no tick was fired twice"
    assert ticks == sorted(ticks)
    runs = execute(interlock_url, "SELECT token, phase FROM run ORDER BY position")
    tokens = [token for token, _ in runs]
    assert tokens == sorted(tokens), "no job of one term wrote after one of the next"


def messages(directory: Path) -> list[dict[str, Any]]:
    """In the order in which they were sent: their files are named by a clock that all processes share."""
    files = sorted(directory.glob("*.msg"), key=lambda file: (int(file.name.split("_")[0]), file.stat().st_mtime_ns))
    return [json.loads(text) for file in files if (text := file.read_text())]


def test_celery_beat_goes_on_in_another_replica(interlock_url: str, tmp_path: Path) -> None:
    sent = tmp_path / "messages"
    sent.mkdir()
    (tmp_path / "control").mkdir()
    command = [sys.executable, "-m", "celery", "-A", "support.beat_app", "beat", "--pidfile="]
    env = {"BEAT_DIRECTORY": str(tmp_path), "INTERLOCK_DATABASE_URL": interlock_url}
    with processes(command, 2, tmp_path / "log", **env) as replicas:
        for _ in range(2):
            pid = leader(interlock_url, "beat of the shop", replicas)
            before = len(messages(sent))
            eventually(lambda before=before: len(messages(sent)) >= before + 5)  # type: ignore[misc]
            replicas.pop(pid).kill()
    headers = [message["headers"] for message in messages(sent)]
    assert {header["task"] for header in headers} == {"shop.sweep"}
    tokens = [header["interlock_token"] for header in headers]
    assert len(set(tokens)) >= 2
    assert all(earlier <= later for earlier, later in pairwise(tokens)), "a scheduler sent after the next had begun"
    assert all(b64decode(message["body"]) for message in messages(sent))


def test_celery_beat_that_is_ended_politely_hands_over_at_once(interlock_url: str, tmp_path: Path) -> None:
    (tmp_path / "messages").mkdir()
    (tmp_path / "control").mkdir()
    command = [sys.executable, "-m", "celery", "-A", "support.beat_app", "beat", "--pidfile="]
    env = {"BEAT_DIRECTORY": str(tmp_path), "INTERLOCK_DATABASE_URL": interlock_url}
    with processes(command, 2, tmp_path / "log", **env) as replicas:
        first = leader(interlock_url, "beat of the shop", replicas)
        waits = "SELECT 1 FROM interlock.waiters_v1('beat of the shop')"
        eventually(lambda: execute(interlock_url, waits))
        replicas[first].terminate()
        assert replicas[first].wait(20) == 0
        rows = execute(interlock_url, "SELECT pid FROM interlock.held_v1('beat of the shop')")
        assert (first,) not in rows
        leader(interlock_url, "beat of the shop", {pid: each for pid, each in replicas.items() if pid != first})
