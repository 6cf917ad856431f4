"""The supervisor by itself: its arguments, its line protocol and its exit status."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.clock import boottime
from interlock.supervision import supervisor
from interlock.supervision.supervisor_process import order

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="subreapers are of Linux")

HOUR = 3600.0


class Supervised:
    """A supervisor with its control channel. The command's stdout is a pipe, which ends with the last process."""

    def __init__(self, *argv: str, trust: float = HOUR) -> None:
        self.control, theirs = socket.socketpair()
        self.control.settimeout(20)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        if argv:
            self.control.sendall(order(argv, boottime() + trust, None, None))

    def send(self, data: str) -> None:
        self.control.sendall(data.encode())

    def line(self) -> str:
        """The next report."""
        received = b""
        while not received.endswith(b"\n"):
            byte = self.control.recv(1)
            assert byte, f"the channel ended after {received!r}"
            received += byte
        return received.decode().strip()

    def finish(self) -> tuple[int, list[str]]:
        """Wait for the end. Returns the exit status and the reports that were not read yet."""
        reports = b"".join(iter(lambda: self.control.recv(4096), b""))
        return self.process.wait(20), reports.decode().splitlines()

    def close(self) -> None:
        self.control.close()
        _, errors = self.process.communicate(timeout=50)
        self.errors = errors.decode()


@pytest.fixture
def supervised() -> Iterator[type[Supervised]]:
    made: list[Supervised] = []

    class Kept(Supervised):
        def __init__(self, *argv: str, trust: float = HOUR) -> None:
            super().__init__(*argv, trust=trust)
            made.append(self)

    yield Kept
    for one in made:
        one.close()


@pytest.mark.parametrize(
    ("script", "status", "report"),
    [("exit 0", 0, "exited 0"), ("exit 3", 3, "exited 3"), ("kill -KILL $$", 137, "signalled 9")],
)
def test_it_exits_as_the_command_did(supervised: type[Supervised], script: str, status: int, report: str) -> None:
    one = supervised("sh", "-c", script)
    assert one.line().startswith("started ")
    assert one.finish() == (status, [report, "ended itself"])


def test_a_command_that_does_not_exist_gives_127(supervised: type[Supervised]) -> None:
    assert supervised("no-such-command").finish() == (127, ["failed 2 No such file or directory", "ended failed"])


def test_a_file_that_is_not_executable_gives_126(supervised: type[Supervised], tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")
    assert supervised(str(plain)).finish() == (126, ["failed 13 Permission denied", "ended failed"])


def test_nothing_is_started_when_the_deadline_has_passed(supervised: type[Supervised], tmp_path: Path) -> None:
    one = supervised("touch", str(tmp_path / "ran"), trust=-1)
    assert one.finish() == (124, ["ended deadline"])
    assert not (tmp_path / "ran").exists()


def test_nothing_is_started_when_the_gate_has_ended_already(supervised: type[Supervised], tmp_path: Path) -> None:
    one = supervised("touch", str(tmp_path / "ran"))
    one.control.shutdown(socket.SHUT_WR)
    assert one.finish() == (124, ["ended eof"])
    assert not (tmp_path / "ran").exists()


def test_the_end_of_the_channel_kills(supervised: type[Supervised]) -> None:
    one = supervised("sleep", "300")
    one.line()
    one.control.shutdown(socket.SHUT_WR)
    assert one.finish() == (124, ["signalled 9", "ended eof"])


def test_orders_may_arrive_in_pieces_and_several_at_once(supervised: type[Supervised]) -> None:
    script = (
        "import os, signal; signal.signal(signal.SIGUSR1, lambda *_: os._exit(5)); print(flush=True); signal.pause()"
    )
    one = supervised(sys.executable, "-I", "-S", "-c", script)
    one.line()
    assert one.process.stdout
    assert one.process.stdout.readline() == b"\n"
    for piece in (
        "tru",
        f"st {boottime() + HOUR}\nsig",
        "nal",
        f" {int(signal.SIGUSR1)}",
        f"\ntrust {boottime() + HOUR}\n",
    ):
        one.send(piece)
    assert one.finish() == (5, ["exited 5", "ended itself"])


@pytest.mark.parametrize("word", ["nan", "0"])
def test_a_deadline_that_has_passed_kills(supervised: type[Supervised], word: str) -> None:
    one = supervised("sleep", "300")
    one.line()
    one.send(f"trust {word}\n")
    assert one.finish() == (124, ["signalled 9", "ended deadline"])


def test_a_crash_of_the_supervisor_ends_the_command(supervised: type[Supervised]) -> None:
    one = supervised("sh", "-c", "sleep 300 & sleep 300")
    one.line()
    one.send("sing la-la-la\n")
    assert one.finish() == (124, ["ended supervisor-killed"])
    one.close()
    assert "ValueError: sing" in one.errors


def test_signals_do_not_end_it(supervised: type[Supervised]) -> None:
    one = supervised("sleep", "300")
    command = int(one.line().removeprefix("started "))
    inner = supervisor.Process(Path(f"/proc/{command}/stat").read_bytes()).parent
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGTSTP):
        os.kill(inner, signum)
        os.kill(one.process.pid, signum)
    one.send("signal 15\n")
    assert one.finish() == (143, ["signalled 15", "ended itself"])


def test_the_clock_is_the_gates() -> None:
    before, seen, after = boottime(), supervisor.now(), boottime()
    assert before <= seen <= after


@pytest.mark.parametrize("name", ["sleep", "a b", ") R 1 1 (", "((", "))", "\n) Z 9 9"])
def test_a_process_may_have_any_name(name: str) -> None:
    process = supervisor.Process(f"42 ({name}) S 7 40 39 0 -1 4194304 99".encode())
    assert (process.pid, process.state, process.parent, process.group) == (42, b"S", 7, 40)


def test_it_loads_little_because_every_command_waits_for_its_start() -> None:
    code = f"import sys; sys.path.insert(0, {str(Path(supervisor.__file__).parent)!r}); import supervisor"
    command = [sys.executable, "-I", "-S", "-c", f"{code}; print(*sys.modules)"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    dear = {"asyncio", "collections", "contextlib", "enum", "functools", "pathlib", "re", "signal", "typing"}
    assert "supervisor" in loaded
    assert dear.isdisjoint(loaded)
