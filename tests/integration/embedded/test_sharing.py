import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from interlock.embedded import Cluster
from interlock.errors import ClusterFailed

MakeCluster = Callable[..., Cluster]
RunPython = Callable[..., "subprocess.Popen[str]"]

STARTER = """
import sys
from pathlib import Path
from interlock.embedded import Cluster, find_binaries
cluster = Cluster(Path(sys.argv[1]), binaries=find_binaries(Path(sys.argv[2])))
print("here", flush=True)
sys.stdin.readline()
print(cluster.start(), cluster.pid(), flush=True)
"""

USER = """
import sys
from pathlib import Path
from interlock.embedded import Cluster, find_binaries
cluster = Cluster(Path(sys.argv[1]), binaries=find_binaries(Path(sys.argv[2])))
print("started" if cluster.attach() else "attached", flush=True)
sys.stdin.readline()
print("stopped" if cluster.release() else "left", flush=True)
"""

COMES_AND_GOES = """
import sys
from pathlib import Path
import psycopg
from interlock.embedded import Cluster, find_binaries
cluster = Cluster(Path(sys.argv[1]), binaries=find_binaries(Path(sys.argv[2])))
for _ in range(6):
    with cluster.shared(), psycopg.connect(cluster.url()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
print("done", flush=True)
"""


def hear(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def nudge(process: "subprocess.Popen[str]") -> None:
    assert process.stdin
    process.stdin.write("\n")
    process.stdin.flush()


def leave(process: "subprocess.Popen[str]") -> str:
    nudge(process)
    return hear(process)


def test_processes_that_start_it_at_once_start_it_once(cluster: Cluster, run_python: RunPython) -> None:
    starters = [run_python(STARTER, cluster.root) for _ in range(4)]
    assert [hear(process) for process in starters] == ["here"] * 4
    for process in starters:
        nudge(process)

    answers = sorted(hear(process) for process in starters)

    pid = cluster.pid()
    assert answers == [f"False {pid}", f"False {pid}", f"False {pid}", f"True {pid}"]
    assert cluster.log_tail(1000).count("starting PostgreSQL") == 1
    assert "already exists" not in cluster.log_tail(1000)


def test_processes_that_create_it_at_once_create_it_once(place: Path, run_python: RunPython) -> None:
    users = [run_python(USER, place / "cluster") for _ in range(3)]

    assert sorted(hear(process) for process in users) == ["attached", "attached", "started"]


def test_a_second_user_keeps_the_cluster_running_after_the_first_leaves(
    cluster: Cluster, run_python: RunPython
) -> None:
    first, second = run_python(USER, cluster.root), run_python(USER, cluster.root)
    assert sorted([hear(first), hear(second)]) == ["attached", "started"]

    assert leave(first) == "left"
    with psycopg.connect(cluster.url()) as connection:
        connection.execute("select 1")
    assert leave(second) == "stopped"
    assert not cluster.is_running()


def test_a_killed_user_is_no_user(cluster: Cluster, run_python: RunPython) -> None:
    killed, last = run_python(USER, cluster.root), run_python(USER, cluster.root)
    hear(killed)
    hear(last)

    killed.kill()
    killed.wait()

    assert cluster.is_running()
    assert leave(last) == "stopped"


def test_a_cluster_whose_only_user_was_killed_is_taken_over_by_the_next(
    cluster: Cluster, run_python: RunPython
) -> None:
    killed = run_python(USER, cluster.root)
    hear(killed)
    killed.kill()
    killed.wait()

    successor = run_python(USER, cluster.root)

    assert hear(successor) == "attached"
    assert leave(successor) == "stopped"


def test_a_stop_never_gets_in_the_way_of_a_start(cluster: Cluster, run_python: RunPython) -> None:
    processes = [run_python(COMES_AND_GOES, cluster.root) for _ in range(3)]

    assert [hear(process) for process in processes] == ["done"] * 3
    assert not cluster.is_running()


def test_one_process_may_be_several_users(cluster: Cluster) -> None:
    with cluster.shared():
        with cluster.shared():
            pass
        assert cluster.is_running()
    assert not cluster.is_running()


def test_a_cluster_is_not_deleted_under_another_user(copy_cluster: MakeCluster, run_python: RunPython) -> None:
    cluster = copy_cluster()
    other = run_python(USER, cluster.root)
    hear(other)

    with cluster.shared():
        with pytest.raises(ClusterFailed, match="used by another process"):
            cluster.delete()
        assert leave(other) == "left"
        cluster.delete()

    assert not cluster.root.exists()


def test_a_failed_start_leaves_no_user_behind(cluster: Cluster, make_cluster: MakeCluster) -> None:
    broken = make_cluster(settings={"work_mem": "a lot"})
    with pytest.raises(ClusterFailed):
        broken.attach()

    with cluster.shared():
        pass

    assert not cluster.is_running()
