"""A supervisor that is started before its command: it is used once and never left behind."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.clock import boottime
from interlock.supervision import SupervisedCommand, SupervisorProcess, supervisor
from interlock.supervision.supervisor_process import order
from support.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="subreapers are of Linux")

HOLDER = """
import os, sys
from interlock.supervision import SupervisorProcess
idle = SupervisorProcess()
if sys.argv[1] == "forks" and os.fork() == 0:
    os.close(1)
    sys.stdin.read()
    os._exit(0)
print(idle.process.pid, flush=True)
sys.stdin.read()
"""


def guard_of(command: SupervisedCommand) -> int:
    """Returns the pid of the guard, the parent of the supervisor, which is the command's parent."""
    inner = supervisor.Process(Path(f"/proc/{command.pid}/stat").read_bytes()).parent
    return supervisor.Process(Path(f"/proc/{inner}/stat").read_bytes()).parent


async def started(idle: SupervisorProcess) -> SupervisedCommand:
    starting = SupervisedCommand.start(["sleep", "300"], trust_until=boottime() + 3600, supervisor=idle)
    return await asyncio.wait_for(starting, 20)


async def test_it_is_the_one_that_supervises() -> None:
    others = supervisor.own_children()
    with SupervisorProcess() as idle:
        command = await started(idle)
        assert guard_of(command) == idle.process.pid
    assert (await command.stop(1)).ended_by == "stop"
    assert supervisor.own_children() == others


async def test_a_supervisor_that_was_killed_meanwhile_is_replaced() -> None:
    with SupervisorProcess() as idle:
        idle.process.kill()
        idle.process.wait(20)
        command = await started(idle)
        assert guard_of(command) != idle.process.pid
        assert (await command.stop(1)).all_ended


async def test_it_supervises_one_command() -> None:
    with SupervisorProcess() as idle:
        first, second = await started(idle), await started(idle)
        assert guard_of(first) != guard_of(second)
        for command in (first, second):
            assert (await command.stop(1)).all_ended


@pytest.mark.parametrize("stopped", [False, True])
def test_without_a_command_it_is_killed(stopped: bool) -> None:
    others = supervisor.own_children()
    with SupervisorProcess() as idle:
        if stopped:
            idle.process.send_signal(signal.SIGSTOP)
    assert supervisor.own_children() == others


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize("forks", ["forks", "-"])
def test_it_ends_with_its_holder_although_a_fork_has_the_channel(forks: str, up: bool) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, forks], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout
        pid = int(holder.stdout.readline())
        watched = os.pidfd_open(pid)
        if up:
            eventually(lambda: _ignores_signals(pid))
        holder.kill()
        holder.wait(20)
        assert select.select([watched], [], [], 20)[0]
        os.close(watched)


def _ignores_signals(pid: int) -> bool:
    """True once the supervisor ignores signals, which is just before it waits."""
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["SigIgn"], 16) & 1 << (signal.SIGTERM - 1))


@pytest.mark.parametrize(
    ("argv", "env"), [(["a\0b"], {}), (["a"], {"B": "c\0d"}), (["a"], {"B=C": "d"})], ids=["argument", "value", "name"]
)
def test_impossible_arguments_are_an_error_of_the_caller(argv: list[str], env: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"null byte|variable name"):
        order(argv, 0.0, env, None)
