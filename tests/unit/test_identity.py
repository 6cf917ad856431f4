"""The name of a process among the replicas."""

import os
import re
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from interlock import identity
from interlock.identity import replica_id

SAY_IT_HERE_AND_IN_A_CHILD = """
import os
from interlock.identity import replica_id
print(replica_id(), flush=True)
if os.fork() == 0:
    print(replica_id(), flush=True)
    os._exit(0)
os.wait()
"""


def in_another_process(**environment: str) -> list[str]:
    env = {name: value for name, value in os.environ.items() if name != "POD_NAME"} | environment
    program = [sys.executable, "-c", SAY_IT_HERE_AND_IN_A_CHILD]
    return subprocess.run(program, env=env, capture_output=True, text=True, check=True).stdout.split()


def test_a_process_keeps_its_name() -> None:
    assert replica_id() == replica_id()


def test_the_name_has_the_host_the_pid_and_a_random_part() -> None:
    mine, _ = in_another_process()
    assert re.fullmatch(re.escape(socket.gethostname()) + r"-\d+-[0-9a-f]{6}", mine)


def test_a_forked_child_is_another_replica() -> None:
    mine, childs = in_another_process()
    assert mine != childs


def test_a_process_that_is_started_again_is_another_replica_even_under_the_same_pid() -> None:
    first, second = in_another_process()[0], in_another_process()[0]
    assert first.rpartition("-")[2] != second.rpartition("-")[2]


def test_a_pod_uses_its_own_name() -> None:
    assert in_another_process(POD_NAME="shop-7f9c-x2x5l")[0] == "shop-7f9c-x2x5l"


def test_an_empty_pod_name_is_none() -> None:
    assert in_another_process(POD_NAME="")[0].startswith(socket.gethostname())


def test_threads_that_call_at_the_same_time_get_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    both_inside = threading.Barrier(2)

    def slow_hostname() -> str:
        both_inside.wait(10)
        return "host"

    monkeypatch.delenv("POD_NAME", raising=False)
    monkeypatch.setattr(socket, "gethostname", slow_hostname)
    identity._chosen_by.cache_clear()
    try:
        with ThreadPoolExecutor(2) as threads:
            one, other = threads.submit(replica_id), threads.submit(replica_id)
            assert one.result() == other.result()
    finally:
        identity._chosen_by.cache_clear()
