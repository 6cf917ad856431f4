import os
import socket
import subprocess
from pathlib import Path

import pytest

from interlock.embedded.postmaster import live_postmaster, read_postmaster
from interlock.embedded.processes import has_ended


def write_pid_file(data: Path, *, pid: int, status: str = "ready   ") -> None:
    lines = [str(pid), str(data), "1700000000", "5432", str(data), "", "  1234  5", status]
    (data / "postmaster.pid").write_text("\n".join(lines) + "\n")


def test_no_file_is_no_postmaster(tmp_path: Path) -> None:
    assert read_postmaster(tmp_path) is None


@pytest.mark.parametrize("content", ["", "12\n", "12\n/data\n1700000000\n5432\n\n"])
def test_a_file_that_is_still_being_written_is_no_postmaster_yet(tmp_path: Path, content: str) -> None:
    (tmp_path / "postmaster.pid").write_text(content)

    assert read_postmaster(tmp_path) is None


@pytest.mark.parametrize(
    ("status", "is_ready"), [("ready   ", True), ("standby ", True), ("starting", False), ("stopping", False)]
)
def test_the_status_says_whether_it_accepts_connections(tmp_path: Path, status: str, is_ready: bool) -> None:
    write_pid_file(tmp_path, pid=os.getpid(), status=status)

    found = read_postmaster(tmp_path)

    assert found is not None
    assert found.is_ready is is_ready


def test_a_stale_file_with_another_programs_process_id_is_not_believed(tmp_path: Path) -> None:
    write_pid_file(tmp_path, pid=os.getpid())

    assert live_postmaster(tmp_path) is None


def test_a_process_that_listens_on_the_socket_is_believed(tmp_path: Path) -> None:
    write_pid_file(tmp_path, pid=os.getpid())
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / ".s.PGSQL.5432"))
        listener.listen()

        assert live_postmaster(tmp_path) is not None


def test_a_zombie_has_ended() -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert not has_ended(child.pid)
        assert child.stdin
        assert child.stdout
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)

        assert has_ended(child.pid)
