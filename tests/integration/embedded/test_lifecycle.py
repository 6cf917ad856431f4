import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from interlock.embedded import Binaries, Cluster, lifecycle, running_url
from interlock.embedded.locks import is_held
from interlock.embedded.processes import has_ended, wait_until
from interlock.errors import AddressInUse, ClusterFailed
from support.unrelated_processes import give_process_id, process_of_the_servers_user

MakeCluster = Callable[..., Cluster]

ORPHANS = "pre-existing shared memory block"


def query(url: str, statement: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(statement.encode()).fetchone()
        return row[0] if row else None


def write_a_row(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("drop table if exists kept")
        connection.execute("create table kept as select 1 as id")


def kill_postmaster(cluster: Cluster) -> int:
    """Returns when it is dead; the system may take its time to bury it."""
    pid = cluster.pid()
    assert pid
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: has_ended(pid), timeout=10)
    return pid


def test_a_cluster_is_created_once_and_started_from_nothing(place: Path, binaries: Binaries) -> None:
    cluster = Cluster(place / "not there yet" / "cluster", binaries=binaries)

    assert cluster.create()
    assert not cluster.create()
    assert cluster.start()
    assert query(cluster.url(), "show data_checksums") == "on"
    assert query(cluster.url(), "show server_encoding") == "UTF8"
    assert query(cluster.url(), "show fsync") == "on"


def test_data_are_there_after_a_stop_and_a_start(cluster: Cluster) -> None:
    cluster.start()
    write_a_row(cluster.url())

    assert cluster.stop()
    assert not cluster.is_running()
    assert not cluster.stop()
    assert cluster.start()
    assert query(cluster.url(), "select count(*) from kept") == 1


def test_starting_a_running_cluster_changes_nothing(cluster: Cluster, make_cluster: MakeCluster) -> None:
    cluster.start()
    pid = cluster.pid()

    assert not cluster.start()
    assert not make_cluster().start()
    assert cluster.pid() == pid


def test_a_killed_cluster_with_an_open_client_starts_again_with_its_data(cluster: Cluster) -> None:
    cluster.start()
    write_a_row(cluster.url())
    with closing(psycopg.connect(cluster.url())) as client:
        client.execute("select * from kept")
        pid = kill_postmaster(cluster)

        assert cluster.ensure_running()

    assert cluster.pid() not in (None, pid)
    assert query(cluster.url(), "select count(*) from kept") == 1
    assert not cluster.ensure_running()


@pytest.fixture
def orphan(cluster: Cluster) -> int:
    """A server process that outlives its killed postmaster, because it does not run."""
    cluster.start()
    client = psycopg.connect(cluster.url())
    backend = client.info.backend_pid
    os.kill(backend, signal.SIGSTOP)
    kill_postmaster(cluster)
    client.close()
    return backend


def test_a_start_waits_for_the_orphans_of_a_killed_postmaster(cluster: Cluster, orphan: int) -> None:
    starter = threading.Thread(target=cluster.start)
    starter.start()
    try:
        assert wait_until(lambda: ORPHANS in cluster.log_tail(), timeout=20)
    finally:
        os.kill(orphan, signal.SIGCONT)
    starter.join()

    assert cluster.is_running()


def test_orphans_that_never_end_fail_the_start_and_leave_everything_as_it_is(
    cluster: Cluster, orphan: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid_file = (cluster.root / "data" / "postmaster.pid").read_text()
    try:
        with monkeypatch.context() as hurry:
            hurry.setattr(lifecycle, "_ORPHANS_TIMEOUT", 0.0)
            with pytest.raises(ClusterFailed, match=ORPHANS) as failure:
                cluster.start()
        assert ORPHANS in failure.value.log_tail
        assert (cluster.root / "data" / "postmaster.pid").read_text() == pid_file
    finally:
        os.kill(orphan, signal.SIGCONT)
    assert cluster.start()


def test_while_there_are_orphans_another_with_the_postmasters_id_is_not_disowned(
    cluster: Cluster, orphan: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file's content keeps a second server away from data that the orphans may still write to."""
    file = cluster.root / "data" / "postmaster.pid"
    try:
        with monkeypatch.context() as hurry, process_of_the_servers_user() as stranger:
            give_process_id(cluster.root / "data", stranger.pid)
            hurry.setattr(lifecycle, "_ORPHANS_TIMEOUT", 0.0)
            with pytest.raises(ClusterFailed, match=r'lock file "postmaster\.pid" already exists'):
                cluster.start()
            assert file.read_text().startswith(f"{stranger.pid}\n")
    finally:
        os.kill(orphan, signal.SIGCONT)
    assert cluster.start()


def test_a_crash_while_data_are_made_is_cleared_away(place: Path, binaries: Binaries) -> None:
    cluster = Cluster(place / "cluster", binaries=binaries)
    (place / "cluster" / "data.new" / "base").mkdir(parents=True)
    (place / "cluster" / "data.new" / "PG_VERSION").write_text("17\n")

    assert cluster.create()
    assert not (place / "cluster" / "data.new").exists()
    assert (place / "cluster" / "data" / "global" / "pg_control").exists()


SLOW_INITDB = """#!/bin/sh
[ "$1" = --version ] && exec {initdb} --version
echo begun >{place}/begun
cat {place}/go
{initdb} "$@"
status=$?
echo ended >{place}/ended
exit $status
"""

CREATE = """
import sys
from dataclasses import replace
from pathlib import Path
from interlock.embedded import Cluster, find_binaries
binaries = find_binaries(Path(sys.argv[2]))
Cluster(Path(sys.argv[1]), binaries=replace(binaries, bin_dir=Path(sys.argv[1]).parent / "slow")).create()
"""


def slow_binaries(place: Path, binaries: Binaries) -> None:
    """An initdb that reports its start, and continues on a signal."""
    place.chmod(0o777)
    for fifo in (place / "begun", place / "go"):
        os.mkfifo(fifo)
        fifo.chmod(0o666)
    (place / "slow").mkdir()
    (place / "slow" / "postgres").symlink_to(binaries.postgres)
    (place / "slow" / "initdb").write_text(SLOW_INITDB.format(place=place, initdb=binaries.initdb))
    (place / "slow" / "initdb").chmod(0o755)


def test_a_killed_creators_initdb_ends_before_the_next_creation(
    place: Path, binaries: Binaries, run_python: Callable[..., "subprocess.Popen[str]"]
) -> None:
    slow_binaries(place, binaries)
    creator = run_python(CREATE, place / "cluster")
    assert (place / "begun").read_text() == "begun\n"
    creator.kill()
    creator.wait()

    assert is_held(place / "cluster" / "control.lock")
    (place / "go").write_text("go on\n")
    assert Cluster(place / "cluster", binaries=binaries).create()
    assert (place / "ended").exists()


def test_deleting_ends_the_orphans_of_a_killed_postmaster(copy_cluster: MakeCluster) -> None:
    cluster = copy_cluster()
    cluster.start()
    with closing(psycopg.connect(cluster.url())) as client:
        orphan = client.info.backend_pid
        os.kill(orphan, signal.SIGSTOP)
        kill_postmaster(cluster)

        cluster.delete()

    assert has_ended(orphan)
    assert not cluster.root.exists()


@pytest.mark.exhaustive
def test_deleting_at_once_kills_a_server_that_does_not_stop(copy_cluster: MakeCluster) -> None:
    cluster = copy_cluster(stop_timeout=5)
    cluster.start()
    pid = cluster.pid()
    assert pid
    os.kill(pid, signal.SIGSTOP)

    cluster.delete("immediate")

    assert has_ended(pid)
    assert not cluster.root.exists()


def test_a_refused_setting_fails_with_postgresqls_message(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(settings={"work_mem": "a lot"})

    with pytest.raises(ClusterFailed, match=r"postgresql\.log") as failure:
        cluster.start()

    assert 'invalid value for parameter "work_mem": "a lot"' in failure.value.log_tail


def test_the_callers_settings_override_the_defaults(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(settings={"max_connections": "17", "application_name": "it's \\ a name"})

    cluster.start()

    assert query(cluster.url(), "show max_connections") == "17"
    assert query(cluster.url(), "show shared_buffers") == "128MB"
    assert "application_name = 'it''s \\\\ a name'" in (cluster.root / "settings.conf").read_text()


def test_without_a_port_only_the_socket_listens(cluster: Cluster) -> None:
    cluster.start()

    assert query(cluster.url(), "show listen_addresses") == ""
    with pytest.raises(ClusterFailed, match="no TCP port"):
        cluster.url(tcp=True)


def test_a_free_port_listens_on_the_loopback_only_and_stays_the_same(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(port="free")
    cluster.start()
    first = cluster.url(tcp=True)

    assert query(first, "show listen_addresses") == "127.0.0.1"
    cluster.stop()
    cluster.start()
    assert cluster.url(tcp=True) == first


def test_a_port_that_was_free_and_is_taken_now_is_replaced(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(port="free")
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        (cluster.root / "port").write_text(str(taken))

        cluster.start()

        assert f":{taken}/" not in cluster.url(tcp=True)
        assert query(cluster.url(tcp=True), "select 1") == 1


def test_a_given_port_that_is_taken_is_an_error_that_names_it(make_cluster: MakeCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]

        with pytest.raises(AddressInUse, match=str(taken)):
            make_cluster(port=taken).start()


def test_the_running_url_is_that_of_a_running_cluster_only(cluster: Cluster, place: Path) -> None:
    assert running_url(place / "nothing here") is None
    assert running_url(cluster.root) is None
    cluster.start()
    assert running_url(cluster.root, "template1") == cluster.url("template1")
    cluster.stop()
    assert running_url(cluster.root) is None


def test_a_cluster_that_was_never_created_does_not_start(place: Path, binaries: Binaries) -> None:
    with pytest.raises(ClusterFailed, match="create the cluster first"):
        Cluster(place / "cluster", binaries=binaries).start()

    assert not (place / "cluster").exists()


def test_deleting_a_running_cluster_leaves_nothing(copy_cluster: MakeCluster) -> None:
    cluster = copy_cluster()
    cluster.start()
    pid = cluster.pid()
    assert pid

    cluster.delete()

    assert not cluster.root.exists()
    assert has_ended(pid)
    cluster.delete()


def test_deleting_keeps_foreign_files(copy_cluster: MakeCluster) -> None:
    cluster = copy_cluster()
    (cluster.root / "notes.txt").write_text("mine")

    cluster.delete()

    assert [path.name for path in cluster.root.iterdir()] == ["notes.txt"]


def test_several_clusters_run_side_by_side_under_unusual_paths(copy_cluster: MakeCluster) -> None:
    names = ["ünïcödé with spaces 'and' \"quotes\" $HOME", "数,据", "long" * 30]
    clusters = [copy_cluster(name, port="free") for name in names]

    for cluster in clusters:
        cluster.start()

    for cluster in clusters:
        assert query(cluster.url(), "show data_directory") == str(cluster.root / "data")
        assert query(cluster.url(tcp=True), "show data_directory") == str(cluster.root / "data")
    outside = Path(str(psycopg.conninfo.conninfo_to_dict(clusters[-1].url())["host"]))
    assert outside.parent == Path("/tmp")
    for cluster in clusters:
        cluster.delete()
    assert not outside.exists()


def test_the_server_is_out_of_reach_of_our_terminal(cluster: Cluster) -> None:
    cluster.start()
    pid = cluster.pid()
    assert pid

    assert os.getsid(pid) != os.getsid(0)
    assert os.getpgid(pid) != os.getpgid(0)
