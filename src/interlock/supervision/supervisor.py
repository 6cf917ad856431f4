"""The process between a holder (of a gate, of a lease) and its command. It ends the command with the holder's trust.

This process runs in a session of its own, with the standard library alone, so that it is up in milliseconds::

    python -I -S supervisor.py <control-fd> <pid of G>

**Processes.** The holder G starts the guard W, which forks the supervisor S, which starts the command C. S is in
control: it acts on G's lines on the control channel, G's or W's death, the deadline, and C's end. W only waits for S:
it continues S when another process has stopped it, and takes its place when it dies. Both are subreapers: every process
that C starts stays below S even if it forks twice or calls setsid(), and "S has no children" is the kernel's own proof
that nothing is left. Both ignore every signal that can be ignored. G itself is not a subreaper, because then the
daemons that it starts for other reasons (an embedded PostgreSQL) would become its children too, and could not be
distinguished from leftovers of C; so W stands in between.

**After a crash** nothing is left, in all of these cases:

- G is killed: S sees the end of the channel, or G's pidfd become readable, and kills everything.
- G is suspended or hangs: no `trust` arrives in time, and S kills everything.
- S is killed: the kernel kills C (parent-death signal); the other processes become children of W, which kills them.
- W is killed: S sees the end of their pipe, and kills everything.

**From G** come lines. The first describes C, ``run <moment> <arguments> <hex>``: the end of the trust in G, the number
of C's arguments, and, separated by NUL, C's directory (S's own if empty), arguments and environment. W waits for this
line without limit, and forks only then. Later lines are ``trust <moment>`` (on the clock of `now()`; the last one
counts; once the moment has passed, everything is killed), ``signal <n>`` (to C's process group), ``stop <seconds>``
(SIGTERM to everything, SIGKILL after that grace). **To G** go lines, ``ended`` last; if ``ended`` is missing, processes
of C may be left:

- ``started <pid>``, or ``failed <errno> <text>`` when C cannot be started;
- ``exited <code>`` or ``signalled <n>``: how C itself ended;
- ``left-behind <count>``: C ended by itself, and this many of its processes had to be ended too;
- ``ended itself|failed|stop|deadline|eof|supervisor-killed``: the cause of the end, the first if there were several.

**Exit status.** As in a shell, if C ended by itself: its code, 128 + n for signal n, 127 if there is no such command,
126 if it cannot be executed. 124, as of timeout(1), if the supervisor ended it or never started it.

**Not covered.**

- W and S killed, or suspended, at the same moment: C dies with S, processes that C started may live on.
- Processes that were never below S: on other machines, or started by a daemon on C's request (ssh, docker run, kubectl,
  systemd-run, at).
- Processes that S may not signal (setuid programs) or that cannot die (a dead NFS server): S stays until they end.
- Without subreapers (macOS), only C's process group is ended: a descendant that leaves the group escapes. If S alone
  is killed, everything escapes. With subreapers but without a usable /proc, S ends the group and waits for the
  other processes.
- C has no controlling terminal: a program that opens /dev/tty does not find one.
"""

# Its start is part of every command's start, so it imports little: no pathlib, no contextlib, and `_signal` instead of
# `signal`, which adds enumerations. Each of them would add a quarter to the start of the bare interpreter.
# ruff: noqa: PTH115, PTH123, PTH208

import ctypes
import errno
import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterator
else:
    import _signal as signal

# The same clock as interlock.clock.boottime(), which cannot be imported from here.
CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

SIGCHLD, SIGCONT, SIGKILL, SIGTERM = signal.SIGCHLD, signal.SIGCONT, signal.SIGKILL, signal.SIGTERM

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

EXIT_ENDED = 124
EXIT_NOT_EXECUTABLE = 126
EXIT_NOT_FOUND = 127

SETTLE_SECONDS = 0.1
"""The time for processes that outlive C to end by themselves, as the `tee` at the end of a pipeline does."""
BACKGROUND_GRACE_SECONDS = 1.0
"""The time that they then have between SIGTERM and SIGKILL."""
LONGEST_NAP_SECONDS = 1.0
"""poll() does not count the time of a suspended machine, so the deadline is checked at least this often."""
TERMINATE_ROUNDS = 10
"""Rounds of SIGTERM, for processes that are started meanwhile. Processes that are missed are killed after the grace."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.005, 0.5

NEVER = float("inf")

LEFT_IGNORED = [
    signum
    for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
    if signal.getsignal(signum) == signal.SIG_IGN
]
"""The signals that G was started to ignore, as by `nohup`, and does not forward. C ignores them too."""

LIBC = ctypes.CDLL(None)


def now() -> float:
    return time.clock_gettime(CLOCK)


class Suppressed:
    """Like `contextlib.suppress`."""

    def __init__(self, *kinds: type[OSError]) -> None:
        self.kinds = kinds

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> bool:
        return kind is not None and issubclass(kind, self.kinds)


class Process:
    """One process, read from /proc/<pid>/stat."""

    __slots__ = ("group", "parent", "pid", "state")

    def __init__(self, stat: bytes) -> None:
        """`stat` is the file's content. The name in it may hold any character, even blanks and parentheses."""
        pid, _, rest = stat.partition(b" ")
        state, parent, group, *_ = rest.rpartition(b")")[2].split()
        self.pid, self.state, self.parent, self.group = int(pid), state, int(parent), int(group)


def read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def all_processes() -> "Iterator[Process]":
    """Returns every visible process; those that end meanwhile may be missing."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with Suppressed(FileNotFoundError, ProcessLookupError, PermissionError):
                yield Process(read_file(f"/proc/{name}/stat"))


def descendants(root: int) -> list[Process]:
    """Returns every process below `root`, parents before their children; an empty list without a usable /proc."""
    if not proc_is_ours():
        return []
    children: dict[int, list[Process]] = {}
    for process in all_processes():
        children.setdefault(process.parent, []).append(process)
    found = list(children.get(root, ()))
    for process in found:
        found += children.get(process.pid, ())
    return found


def try_kill(pid: int, signum: int) -> None:
    """Signal a process, or the group `-pid`. A process that is gone, or that may not be signalled, is not an error."""
    with Suppressed(ProcessLookupError, PermissionError):
        os.kill(pid, signum)


def own_children() -> list[int]:
    """Returns the pids of this process's children within microseconds; empty if the kernel does not report them."""
    try:
        return [int(pid) for pid in read_file(f"/proc/self/task/{os.getpid()}/children").split()]
    except OSError:
        return []


def kill_descendants() -> None:
    """Send SIGKILL to every process below this one, as found in one pass.

    Groups are killed as well as processes: killing a group cannot race with a fork in it, so it reaches processes that
    fork faster than one pass. A group below this process has no foreign members, because a session cannot be joined
    from outside.
    """
    for (
        pid
    ) in own_children():  # first: a process that forks and exits repeatedly is gone before `descendants` is through
        try_kill(pid, SIGKILL)
    found = descendants(os.getpid())
    for group in {process.group for process in found} - {0, 1, os.getpgrp(), os.getsid(0)}:
        try_kill(-group, SIGKILL)
    for process in found:
        try_kill(process.pid, SIGKILL)


def terminate_descendants() -> int:
    """Send SIGTERM, once, to every process below this one. Returns the number of those that were not dead already."""
    reached: dict[int, bytes] = {}
    for _ in range(TERMINATE_ROUNDS):
        found = {process.pid: process.state for process in descendants(os.getpid()) if process.pid not in reached}
        for pid in found:
            try_kill(pid, SIGTERM)
            try_kill(pid, SIGCONT)  # a stopped process cannot end in good order
        reached |= found
        if not found:
            break
    return sum(state not in b"ZX" for state in reached.values())


def reap() -> tuple[dict[int, int], bool]:
    """Collect every child that has ended. Returns wait statuses by pid, and True if another child is left."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended[pid] = status


def prctl(option: int, value: int) -> bool:
    """Call prctl, which only Linux has. Returns False if prctl does not exist or refuses."""
    try:
        return bool(LIBC.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0))) == 0)
    except AttributeError:
        return False


def proc_is_ours() -> bool:
    """True if /proc exists and uses the same pids as this process (in a container, /proc may use those of the host)."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def watch_process(pid: int) -> int | None:
    """Returns a descriptor that becomes readable when the process ends; None if the system has no pidfd."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def write_line(descriptor: int, line: str) -> None:
    """Report to G. If G is gone, this is not an error: the remaining work is the same."""
    with Suppressed(OSError):
        os.write(descriptor, f"{line}\n".encode())


def shell_status(wait_status: int) -> int:
    code = os.waitstatus_to_exitcode(wait_status)
    return code if code >= 0 else 128 - code


class Order:
    """The command, parsed from G's first line."""

    def __init__(self, line: bytes) -> None:
        run, trust_until, arguments, packed = line.split()
        if run != b"run":
            raise ValueError(run)
        self.directory, *rest = bytes.fromhex(packed.decode()).split(b"\0")
        self.trust_until = float(trust_until)
        self.argv = rest[: int(arguments)]
        self.environment = dict(entry.partition(b"=")[::2] for entry in rest[int(arguments) :])


def first_line(control: int, gate: int | None) -> tuple[bytes, bytes]:
    """Wait for G's first line. Returns the line and the bytes after it. If G ends first, this process ends too."""
    poller = select.poll()
    for descriptor in (control, gate):
        if descriptor is not None:
            poller.register(descriptor, select.POLLIN)
    received = b""
    while b"\n" not in received:
        ready = [descriptor for descriptor, _ in poller.poll()]
        data = os.read(control, 65536) if control in ready else b""
        if not data:
            os._exit(EXIT_ENDED)
        received += data
    line, _, rest = received.partition(b"\n")
    return line, rest


def start_command(order: Order) -> int:
    """Start C in a process group of its own. Returns its pid once it runs. Raises OSError if it cannot be executed."""
    parent = os.getpid()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        become_command(order, parent, writer)
    os.close(writer)
    failure = os.read(reader, 16)
    os.close(reader)
    if failure:
        os.waitpid(pid, 0)
        raise OSError(int(failure), os.strerror(int(failure)))
    return pid


def become_command(order: Order, parent: int, failure: int) -> None:
    """In the child: become C. Never returns. `failure`, a pipe, is closed when C runs, else gets the error number."""
    try:
        os.setpgid(0, 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL)
        if os.getppid() == parent:  # otherwise it died before the line above
            restore_signals()
            if order.directory:
                os.chdir(order.directory)
            os.execvpe(order.argv[0], order.argv, order.environment)  # noqa: S606 - a shell is not wanted
    except OSError as error:
        os.write(failure, str(error.errno).encode())
    finally:
        os._exit(EXIT_NOT_FOUND)


def restore_signals() -> None:
    signal.set_wakeup_fd(-1)
    for signum in signal.valid_signals():
        with Suppressed(OSError):  # SIGKILL and SIGSTOP
            signal.signal(signum, signal.SIG_IGN if signum in LEFT_IGNORED else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def ignore_signals() -> None:
    """Ignore all signals but SIGCHLD (otherwise the kernel would reap the children) and those that report a bug."""
    signal.signal(SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    kept = {SIGCHLD, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
    for signum in signal.valid_signals() - kept:
        with Suppressed(OSError):  # SIGKILL and SIGSTOP
            signal.signal(signum, signal.SIG_IGN)


class Supervisor:
    """The process S. `run` starts the command and returns the exit status when no process of the command is left."""

    def __init__(self, control: int, trust_until: float) -> None:
        self.control = control
        self.trust_until = trust_until
        self.sees_descendants = prctl(PR_SET_CHILD_SUBREAPER, 1) and proc_is_ours()
        self.command: int | None = None
        self.status: int | None = None
        self.exit_status = EXIT_ENDED
        self.ended_by: str | None = None
        self.left_behind = 0
        self.terminate_at = self.kill_at = NEVER
        self.pause = FIRST_PAUSE_SECONDS
        self.received = b""
        self.poller = select.poll()
        self.handlers: dict[int, Callable[[], None]] = {}
        self.watch(control, self.read_control)
        self.watch_children()

    def watch(self, descriptor: int, handler: "Callable[[], None]") -> None:
        self.handlers[descriptor] = handler
        self.poller.register(descriptor, select.POLLIN)

    def watch_children(self) -> None:
        reader, writer = os.pipe()
        for descriptor in (reader, writer):
            os.set_blocking(descriptor, False)
        signal.signal(SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

        def drain() -> None:
            os.read(reader, 4096)

        self.watch(reader, drain)

    def watch_end(self, descriptor: int, cause: str) -> None:
        """Kill everything as soon as `descriptor` becomes readable."""

        def ended() -> None:
            self.poller.unregister(descriptor)
            self.end(cause, kill_at=now())

        self.watch(descriptor, ended)

    def run(self, order: Order) -> int:
        self.listen(0)  # G may be gone already
        self.check_trust()
        if self.ended_by is None:
            self.start(order)
        while self.anything_left():
            self.advance()
            self.listen(self.nap())
        return self.report()

    def start(self, order: Order) -> None:
        try:
            self.command = start_command(order)
        except OSError as error:
            missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
            self.exit_status = EXIT_NOT_FOUND if missing else EXIT_NOT_EXECUTABLE
            self.end("failed")
            write_line(self.control, f"failed {error.errno} {error.strerror}")
        else:
            write_line(self.control, f"started {self.command}")

    def end(self, cause: str, *, kill_at: float = NEVER) -> None:
        """Record that the command ends. Only the first `cause` is reported; the earliest `kill_at` counts."""
        self.ended_by = self.ended_by or cause
        self.kill_at = min(self.kill_at, kill_at)

    def check_trust(self) -> None:
        if not now() < self.trust_until:  # so that nan ends it too
            self.end("deadline", kill_at=now())

    def advance(self) -> None:
        """Kill or terminate the processes of the command, if the time for that has come."""
        self.check_trust()
        if now() >= self.kill_at:
            self.kill_all()
        elif now() >= self.terminate_at:
            self.terminate_at = NEVER
            self.left_behind = self.terminate_all()
            self.kill_at = min(self.kill_at, now() + BACKGROUND_GRACE_SECONDS)

    def nap(self) -> float:
        """Returns the seconds for which S has nothing to do unless an event arrives."""
        if now() >= self.kill_at:
            self.pause = min(self.pause * 2, LONGEST_PAUSE_SECONDS)
            return self.pause
        due = min(self.trust_until, self.kill_at, self.terminate_at)
        return min(max(due - now(), 0), LONGEST_NAP_SECONDS)

    def listen(self, timeout: float) -> None:
        for descriptor, _ in self.poller.poll(timeout * 1000):
            self.handlers[descriptor]()

    def read_control(self) -> None:
        try:
            data = os.read(self.control, 4096)
        except BlockingIOError:
            return
        except ConnectionResetError:
            data = b""
        if not data:
            self.poller.unregister(self.control)
            self.end("eof", kill_at=now())
        self.take(data)

    def take(self, data: bytes) -> None:
        *lines, self.received = (self.received + data).split(b"\n")
        for line in lines:
            self.obey(*line.decode().split())

    def obey(self, order: str, value: str) -> None:
        """Carry out one of G's three orders. Any other order is a bug: S crashes, and that ends the command."""
        if order == "trust":
            self.trust_until = float(value)
        elif order == "signal":
            self.forward(int(value))
        elif order == "stop":
            self.stop(float(value))
        else:
            raise ValueError(order)

    def forward(self, signum: int) -> None:
        if self.command is not None and self.status is None:
            try_kill(-self.command, signum)

    def stop(self, grace: float) -> None:
        self.end("stop", kill_at=now() + grace)
        self.terminate_all()

    def terminate_all(self) -> int:
        """Send SIGTERM to every process of the command. Returns the number of those that S can see."""
        return terminate_descendants() if self.sees_descendants else self.signal_group(SIGTERM)

    def kill_all(self) -> None:
        if self.sees_descendants:
            kill_descendants()
        else:
            self.signal_group(SIGKILL)

    def signal_group(self, signum: int) -> int:
        if self.command is None or not self.group_left():
            return 0
        try_kill(-self.command, signum)
        try_kill(-self.command, SIGCONT)
        return 1

    def anything_left(self) -> bool:
        ended, children_left = reap()
        if ended:
            self.pause = FIRST_PAUSE_SECONDS
        if self.command in ended:
            self.command_ended(ended[self.command])
        return children_left or (not self.sees_descendants and self.group_left())

    def command_ended(self, status: int) -> None:
        self.status = status
        if self.ended_by is None:
            self.end("itself")
            self.exit_status = shell_status(status)
            self.terminate_at = now() + SETTLE_SECONDS

    def group_left(self) -> bool:
        """True if C's process group still has members. Without subreapers, S knows of no other processes."""
        if self.command is None:
            return False
        try:
            os.killpg(self.command, 0)
        except (ProcessLookupError, PermissionError):  # macOS raises the latter for a group of zombies
            return False
        return True

    def report(self) -> int:
        if self.status is not None:
            code = os.waitstatus_to_exitcode(self.status)
            write_line(self.control, f"exited {code}" if code >= 0 else f"signalled {-code}")
        if self.left_behind:
            write_line(self.control, f"left-behind {self.left_behind}")
        write_line(self.control, f"ended {self.ended_by}")
        return self.exit_status


def guard(supervisor: int, control: int, *, gets_orphans: bool) -> int:
    """W: wait for S, end any processes that it leaves behind, and exit with its status."""
    status = wait_for(supervisor)
    pause = FIRST_PAUSE_SECONDS
    while reap()[1]:
        kill_descendants()
        time.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    if gets_orphans:
        write_line(control, "ended supervisor-killed")
    return EXIT_ENDED


def wait_for(supervisor: int) -> int:
    """Wait for the end of S and return its wait status. If S is stopped, continue it: S has to watch the deadline."""
    while True:
        _, status = os.waitpid(supervisor, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return status
        os.kill(supervisor, SIGCONT)


def supervise(control: int, gate: int | None, guard_pipe: int, order: Order, rest: bytes) -> None:
    """Run as S. Never returns. If S crashes, W does the same as after a kill of S."""
    try:
        os.setpgid(0, 0)  # so that killing W's group does not kill S
        supervisor = Supervisor(control, order.trust_until)
        supervisor.take(rest)
        supervisor.watch_end(guard_pipe, "supervisor-killed")
        if gate is not None:
            supervisor.watch_end(gate, "eof")
        os._exit(supervisor.run(order))
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os.kill(os.getpid(), SIGKILL)


def main(control: int, holder: int) -> None:
    """Run as W, and fork S once G's first line has arrived. Never returns."""
    gate = watch_process(holder)
    if os.getppid() != holder:  # it died before it could be watched, and a process that it forked may have the channel
        os._exit(EXIT_ENDED)
    if os.getsid(0) != os.getpid():
        os.setsid()
    ignore_signals()
    os.set_inheritable(control, False)
    gets_orphans = prctl(PR_SET_CHILD_SUBREAPER, 1)
    reader, writer = os.pipe()
    os.get_exec_path()  # loads modules now that C would otherwise load at its start
    line, rest = first_line(control, gate)
    order = Order(line)
    os.set_blocking(control, False)
    pid = os.fork()
    if pid == 0:
        os.close(writer)
        supervise(control, gate, reader, order, rest)
    os.close(reader)
    os._exit(guard(pid, control, gets_orphans=gets_orphans))


def run_as_program() -> None:
    main(*map(int, sys.argv[1:]))


if __name__ == "__main__":
    run_as_program()
