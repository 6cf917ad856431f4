"""Supervised commands, with real processes that are killed.

Every process of a command holds a FIFO open for writing (descriptor 9): the FIFO ends when the last of them has.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from interlock.clock import boottime
from interlock.errors import CommandNotExecutable, CommandNotFound
from interlock.supervision import CommandResult, SupervisedCommand, supervisor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="subreapers are of Linux")

BOUND = 20
"""Seconds after which a wait is a failure; never the usual duration."""

FAMILY = """
bash -c 'sleep 300; true' &
bash -c "bash -c 'bash -c \\"sleep 300; true\\"; true'; true" &
(setsid bash -c 'setsid sleep 300 & exit' &)
"""
"""A grandchild, a longer chain, and a daemon that forked twice in sessions of its own."""

DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 3)
        os.write(9, b"ready\\n")
        time.sleep(300)
"""

TIDY = """
import os, signal
def tidy(*_):
    os.write(9, b'tidied\\n')
    os._exit(0)
signal.signal(signal.SIGTERM, tidy)
os.write(9, b'ready\\n')
signal.pause()
"""

GATE = """
import asyncio, os, sys
from interlock.clock import boottime
from interlock.supervision import SupervisedCommand

async def main():
    trust = float(sys.argv[1])
    command = await SupervisedCommand.start(sys.argv[3:], trust_until=boottime() + trust)
    if sys.argv[2] == "forks" and os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
    ended = asyncio.ensure_future(command.wait())
    while not ended.done():
        command.extend(boottime() + trust)
        await asyncio.wait([ended], timeout=0.05)
    sys.exit(ended.result().exit_status)

asyncio.run(main())
"""


class Tree:
    """The output of a command's processes, and their end."""

    def __init__(self, fifo: Path, reader: asyncio.StreamReader) -> None:
        self._fifo = fifo
        self._reader = reader

    def bash(self, script: str) -> list[str]:
        """Returns a command that reports ``ready`` through the FIFO at ``echo ready >&9`` in `script`."""
        return ["bash", "-c", f'exec 9>"{self._fifo}"\n{script}']

    async def line(self) -> str:
        return (await asyncio.wait_for(self._reader.readline(), BOUND)).decode().strip()

    async def expect(self, expected: str) -> None:
        while (line := await self.line()) != expected:
            assert line, "it ended instead"

    async def has_ended(self) -> None:
        await asyncio.wait_for(self._reader.read(), BOUND)


@pytest.fixture
async def tree(tmp_path: Path) -> AsyncIterator[Tree]:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    file = os.fdopen(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), file
    )
    yield Tree(fifo, reader)
    transport.close()


async def start(
    argv: Sequence[str], *, trust: float = 3600, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> SupervisedCommand:
    starting = SupervisedCommand.start(argv, trust_until=boottime() + trust, env=env, cwd=cwd)
    return await asyncio.wait_for(starting, BOUND)


async def result_of(command: SupervisedCommand) -> CommandResult:
    return await asyncio.wait_for(command.wait(), BOUND)


async def run(argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> CommandResult:
    others = supervisor.own_children()
    result = await result_of(await start(argv, env=env, cwd=cwd))
    assert supervisor.own_children() == others
    return result


@asynccontextmanager
async def gate_process(argv: Sequence[str], *, trust: float = 3600, forks: bool = False) -> AsyncIterator[Popen[bytes]]:
    """A gate in a process of its own, which keeps extending the command's trust."""
    arguments = ["-c", GATE, str(trust), "forks" if forks else "-", *argv]
    with Popen([sys.executable, *arguments], stdin=PIPE, stdout=PIPE) as gate:  # noqa: ASYNC220
        yield gate
        gate.kill()
        await asyncio.to_thread(gate.communicate, timeout=BOUND)


def stat(pid: int | None) -> supervisor.Process:
    return supervisor.Process(Path(f"/proc/{pid}/stat").read_bytes())


def parent(pid: int | None) -> int:
    return stat(pid).parent


async def until(condition: Callable[[], bool]) -> None:
    """Poll for a state that no signal reports."""
    async with asyncio.timeout(BOUND):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def until_stopped(pid: int) -> None:
    await until(lambda: stat(pid).state == b"T")


# Processes that cannot survive


async def test_killing_the_gate_process_ends_the_grandchildren(tree: Tree) -> None:
    async with gate_process(tree.bash(f"{FAMILY} echo ready >&9; wait")) as gate:
        await tree.expect("ready")
        gate.kill()
        await tree.has_ended()


async def test_killing_the_gate_process_ends_a_daemon_that_forked_twice(tree: Tree) -> None:
    async with gate_process(tree.bash(f"{sys.executable} -I -S -c '{DAEMON}'; sleep 300")) as gate:
        await tree.expect("ready")
        gate.kill()
        await tree.has_ended()


async def test_killing_a_gate_that_has_forked_ends_the_command_although_the_fork_holds_the_channel(tree: Tree) -> None:
    async with gate_process(tree.bash("echo ready >&9; sleep 300"), forks=True) as gate:
        await tree.expect("ready")
        gate.kill()
        await tree.has_ended()


async def test_a_stopped_gate_process_loses_its_command_at_the_deadline(tree: Tree) -> None:
    async with gate_process(tree.bash(f"{FAMILY} echo ready >&9; wait"), trust=0.8) as gate:
        await tree.expect("ready")
        gate.send_signal(signal.SIGSTOP)
        await tree.has_ended()


async def test_the_deadline_ends_everything(tree: Tree) -> None:
    command = await start(tree.bash(f"{FAMILY} wait"), trust=0.5)
    result = await result_of(command)
    await tree.has_ended()
    assert result == CommandResult(exit_status=137, ended_by="deadline", left_behind=0, all_ended=True)


async def test_killing_the_supervisor_ends_everything_and_no_other_child_of_the_gate(tree: Tree) -> None:
    bystander = await asyncio.create_subprocess_exec("sleep", "300", start_new_session=True)
    command = await start(tree.bash(f"{FAMILY} echo ready >&9; wait"))
    await tree.expect("ready")
    os.kill(parent(command.pid), signal.SIGKILL)
    result = await result_of(command)
    assert bystander.returncode is None
    bystander.kill()
    await bystander.wait()
    await tree.has_ended()
    assert result == CommandResult(exit_status=137, ended_by="supervisor killed", left_behind=0, all_ended=True)


async def test_killing_the_guard_ends_everything(tree: Tree) -> None:
    command = await start(tree.bash(f"{FAMILY} echo ready >&9; wait"))
    await tree.expect("ready")
    os.kill(parent(parent(command.pid)), signal.SIGKILL)
    result = await result_of(command)
    await tree.has_ended()
    assert result == CommandResult(exit_status=137, ended_by="supervisor killed", left_behind=0, all_ended=True)


async def test_when_guard_and_supervisor_are_killed_at_once_the_command_dies_and_all_ended_is_false(
    tree: Tree,
) -> None:
    command = await start(tree.bash("echo ready >&9; exec sleep 300"))
    await tree.expect("ready")
    inner = parent(command.pid)
    guard = parent(inner)
    for pid in (guard, inner):
        os.kill(pid, signal.SIGSTOP)
        await until_stopped(pid)
    for pid in (inner, guard):  # the other way round the kernel would continue the orphan
        os.kill(pid, signal.SIGKILL)
    result = await result_of(command)
    await tree.has_ended()
    assert result == CommandResult(exit_status=137, ended_by="supervisor killed", left_behind=0, all_ended=False)


async def test_a_stopped_supervisor_still_keeps_the_deadline(tree: Tree) -> None:
    command = await start(tree.bash("echo ready >&9; sleep 300; true"))
    await tree.expect("ready")
    os.kill(parent(command.pid), signal.SIGSTOP)
    command.extend(boottime())
    result = await result_of(command)
    await tree.has_ended()
    assert result.ended_by == "deadline"


async def test_a_stopped_guard_does_not_keep_the_gate_waiting(tree: Tree) -> None:
    command = await start(tree.bash("echo ready >&9; sleep 300"))
    await tree.expect("ready")
    guard = parent(parent(command.pid))
    os.kill(guard, signal.SIGSTOP)
    await until_stopped(guard)
    result = await asyncio.wait_for(command.stop(0), BOUND)
    assert (result.ended_by, result.all_ended) == ("stop", True)


async def test_stopped_descendants_are_ended_too(tree: Tree) -> None:
    command = await start(tree.bash("(kill -STOP $BASHPID; true) & echo $! >&9; wait"))
    await until_stopped(int(await tree.line()))
    assert command.pid is not None
    os.kill(command.pid, signal.SIGSTOP)
    result = await asyncio.wait_for(command.stop(BOUND), BOUND)
    await tree.has_ended()
    assert result.exit_status == 143


async def test_a_fork_bomb_is_ended(tree: Tree) -> None:
    storm = "for i in {1..300}; do setsid bash -c 'sleep 300; true' & echo $i >&9; done; wait"
    command = await start(tree.bash(f"trap '' TERM; {storm}"))
    await tree.expect("40")
    result = await asyncio.wait_for(command.stop(0), BOUND)
    await tree.has_ended()
    assert result.ended_by == "stop"


async def test_a_process_that_forks_and_exits_repeatedly_is_killed(tree: Tree) -> None:
    hop = (
        "import os\nfor i in range(20000):\n  if os.fork(): os._exit(0)\n  os.setsid()\n  i or os.write(9, b'ready\\n')"
    )
    command = await start(tree.bash(f'{sys.executable} -I -S -c "{hop}" & sleep 300'))
    await tree.expect("ready")
    result = await asyncio.wait_for(command.stop(0), BOUND)
    await tree.has_ended()
    assert result.all_ended


async def test_a_process_with_a_misleading_name_is_found(tree: Tree, tmp_path: Path) -> None:
    script = tmp_path / ") Z 1 1 ("
    script.write_text("#!/bin/bash\nsetsid sleep 300 &\necho ready >&9\nwait\n")
    script.chmod(0o755)
    command = await start(tree.bash(f"setsid '{script}'; true"))
    await tree.expect("ready")
    await asyncio.wait_for(command.stop(BOUND), BOUND)
    await tree.has_ended()


# Ends by itself


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -HUP $$", 129)])
async def test_the_exit_status_is_the_one_a_shell_reports(script: str, status: int) -> None:
    result = await run(["bash", "-c", script])
    assert result == CommandResult(exit_status=status, ended_by="itself", left_behind=0, all_ended=True)


async def test_background_processes_are_ended_and_counted(tree: Tree) -> None:
    result = await run(tree.bash("setsid sleep 300 & (sleep 300 &) ; exit 4"))
    await tree.has_ended()
    assert result == CommandResult(exit_status=4, ended_by="itself", left_behind=2, all_ended=True)


async def test_background_processes_may_end_in_good_order(tree: Tree) -> None:
    command = await start(tree.bash(f'{sys.executable} -I -S -c "{TIDY}" & exec sleep 300'))
    await tree.expect("ready")
    assert command.pid is not None
    os.kill(command.pid, signal.SIGUSR1)
    await tree.expect("tidied")
    result = await result_of(command)
    assert (result.exit_status, result.ended_by) == (128 + signal.SIGUSR1, "itself")


async def test_a_missing_command_raises_command_not_found() -> None:
    with pytest.raises(CommandNotFound, match=r"'no-such-command': No such file") as caught:
        await start(["no-such-command", "x"])
    assert caught.value.exit_status == 127


async def test_a_file_that_cannot_be_executed_raises_command_not_executable(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")
    with pytest.raises(CommandNotExecutable, match="Permission denied") as caught:
        await start([str(plain)])
    assert caught.value.exit_status == 126


async def test_a_missing_working_directory_raises_command_not_found(tmp_path: Path) -> None:
    with pytest.raises(CommandNotFound, match="absent"):
        await start(["true"], cwd=tmp_path / "absent")


async def test_a_command_without_trust_is_not_run(tmp_path: Path) -> None:
    result = await result_of(await start(["touch", str(tmp_path / "ran")], trust=-1))
    assert result == CommandResult(exit_status=124, ended_by="deadline", left_behind=0, all_ended=True)
    assert not (tmp_path / "ran").exists()


async def test_a_script_without_an_interpreter_line_raises_with_that_advice(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("exit 0\n")
    script.chmod(0o755)
    with pytest.raises(CommandNotExecutable, match="#! line"):
        await start([str(script)])


# Extending, forwarding, stopping


async def test_extended_trust_outlives_the_first_deadline(tree: Tree) -> None:
    first = boottime() + 0.5
    command = await SupervisedCommand.start(
        tree.bash("trap 'exit 7' USR1; while :; do sleep 0.01; done"), trust_until=first
    )
    command.extend(boottime() + 3600)
    await until(lambda: boottime() > first + 0.1)
    command.forward(signal.SIGUSR1)
    assert (await result_of(command)).exit_status == 7


async def test_a_forwarded_signal_reaches_the_whole_process_group(tree: Tree) -> None:
    child = "trap 'echo child >&9; exit' HUP; echo ready >&9; while :; do sleep 0.01; done"
    command = await start(tree.bash(f"trap 'wait; exit 9' HUP; bash -c \"{child}\" & while :; do sleep 0.01; done"))
    await tree.expect("ready")
    command.forward(signal.SIGHUP)
    await tree.expect("child")
    assert await result_of(command) == CommandResult(9, "itself", left_behind=0, all_ended=True)


async def test_stop_lets_the_command_end_in_good_order(tree: Tree) -> None:
    command = await start(tree.bash("trap 'exit 0' TERM; echo ready >&9; while :; do sleep 0.01; done"))
    await tree.expect("ready")
    result = await asyncio.wait_for(command.stop(BOUND), BOUND)
    assert result == CommandResult(exit_status=0, ended_by="stop", left_behind=0, all_ended=True)


async def test_stop_kills_processes_that_ignore_it_after_the_grace(tree: Tree) -> None:
    command = await start(tree.bash(f"trap '' TERM; {FAMILY} echo ready >&9; wait; sleep 300"))
    await tree.expect("ready")
    result = await asyncio.wait_for(command.stop(0.2), BOUND)
    await tree.has_ended()
    assert result == CommandResult(exit_status=137, ended_by="stop", left_behind=0, all_ended=True)


async def test_a_wait_may_be_cancelled_and_repeated() -> None:
    command = await start(["sleep", "300"])
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(command.wait(), 0.01)
    command.forward(signal.SIGKILL)
    assert (await result_of(command)).exit_status == 137


async def test_a_start_that_is_cancelled_leaves_nothing(tree: Tree) -> None:
    others = supervisor.own_children()
    starting = asyncio.create_task(start(tree.bash("sleep 300")))
    await until(lambda: supervisor.own_children() != others)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert supervisor.own_children() == others


async def test_orders_to_a_supervisor_that_does_not_read_do_not_block_and_none_to_one_that_is_gone_raise(
    tree: Tree,
) -> None:
    command = await start(tree.bash("echo ready >&9; sleep 300; true"))
    await tree.expect("ready")
    inner = parent(command.pid)
    guard = parent(inner)
    async with AsyncExitStack() as resumed:
        for pid in (guard, inner):
            os.kill(pid, signal.SIGSTOP)
            resumed.callback(os.kill, pid, signal.SIGCONT)
            await until_stopped(pid)
        for _ in range(20_000):
            command.extend(boottime() + 3600)
        stopping = asyncio.create_task(command.stop(0))
        await asyncio.sleep(0)
    result = await asyncio.wait_for(stopping, BOUND)
    assert (result.ended_by, result.all_ended) == ("stop", True)
    command.extend(boottime() + 1)
    command.forward(signal.SIGTERM)
    assert await command.stop(1) == result


# The command's environment


async def test_the_command_shares_standard_input_and_output() -> None:
    async with gate_process(["cat"]) as gate:
        out, _ = await asyncio.to_thread(gate.communicate, b"through and through\n", timeout=BOUND)
        assert (out, gate.returncode) == (b"through and through\n", 0)


async def test_the_command_inherits_no_descriptor_but_the_standard_ones(capfd: pytest.CaptureFixture[str]) -> None:
    look = (
        "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n)))"
    )
    await run([sys.executable, "-c", look])
    assert capfd.readouterr().out == "[0, 1, 2]\n"


async def test_the_command_starts_with_default_signals(capfd: pytest.CaptureFixture[str]) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
    try:
        await run(["cat", "/proc/self/status"])
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])
    status = dict(line.split(":", 1) for line in capfd.readouterr().out.splitlines())
    settable = sum(1 << (signum - 1) for signum in signal.valid_signals())  # the C library keeps some for itself
    assert [int(status[mask], 16) & settable for mask in ("SigBlk", "SigIgn", "SigCgt")] == [0, 0, 0]


async def test_arguments_arrive_as_they_were_given(capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["two words", "", "--", "-c", "naïve ✓", "'\"$HOME\"'", "line\nline", "x" * 100_000]
    await run(["bash", "-c", "printf '%s\\0' \"$@\"", "bash", *arguments])
    assert capfd.readouterr().out.split("\0")[:-1] == arguments


async def test_the_environment_is_the_one_given_and_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    big = {f"BIG{number}": "y" * 100_000 for number in range(8)}  # more than the channel takes at once
    given = {"PATH": "/usr/bin:/bin", "PYTHONPATH": "/nowhere", "GRÖSSE": "m ✓", **big}
    await run(["env", "-0"], env=given)
    assert dict(entry.split("=", 1) for entry in capfd.readouterr().out.split("\0")[:-1]) == given


async def test_the_working_directory_is_the_one_given(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    await run(["pwd", "-P"], cwd=tmp_path)
    assert capfd.readouterr().out.strip() == str(tmp_path.resolve())
