"""Starts and stops a cluster's postmaster. The caller has to hold the cluster's control lock."""

import os
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from interlock.embedded.accounts import Account
from interlock.embedded.address import LOOPBACKS
from interlock.embedded.binaries import Binaries
from interlock.embedded.files import write_whole
from interlock.embedded.orphans import has_no_process
from interlock.embedded.paths import ClusterPaths
from interlock.embedded.postmaster import PID_FILE, Postmaster, live_postmaster, read_postmaster, told_pid
from interlock.embedded.processes import has_ended, is_zombie, spawn_daemon, wait_until
from interlock.embedded.settings import DEFAULTS, as_arguments, as_list_item, render, time_zone_settings
from interlock.errors import AddressInUse, ClusterFailed
from interlock.logs import events

log = events(__name__)

Port = int | Literal["free"] | None
StopMode = Literal["smart", "fast", "immediate"]

# The socket's name carries a port number even where nothing listens on that port.
SOCKET_ONLY_PORT = 5432
_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_LARGEST_LOG = 10 * 1024 * 1024

# Seconds in which the children of a killed postmaster notice that, and the complaints of the next one until then.
_ORPHANS_TIMEOUT = 5.0
_ORPHANS_COMPLAINTS = ("pre-existing shared memory block", 'lock file "postmaster.pid" already exists')
# Seconds in which init reaps a killed postmaster: some check only every few seconds.
_REAPING_TIMEOUT = 10.0
_PORT_COMPLAINT = "could not create any TCP/IP sockets"


@dataclass(frozen=True)
class Launch:
    """Starts a cluster whose data exist."""

    paths: ClusterPaths
    binaries: Binaries
    account: Account
    settings: Mapping[str, str]
    port: Port
    tls: bool
    timeout: float

    def bring_up(self) -> bool:
        """Start the cluster and wait until it accepts connections. Returns False if the cluster already ran.

        Raises ClusterFailed, or AddressInUse if another program uses the port.
        """
        self._wait_until_reaped()
        give_up_at = time.monotonic() + _ORPHANS_TIMEOUT
        while self._settled() is None:
            self._remove_stale_pid()
            complaint = self._start()
            if complaint is None:
                return True
            if not self._is_temporary(complaint) or time.monotonic() > give_up_at:
                raise self._failure(complaint)
            log.info("cluster.start_retried", extra={"root": str(self.paths.root), "reason": _reason(complaint)})
            time.sleep(0.05)
        return False

    def _wait_until_reaped(self) -> None:
        """Wait until a dead postmaster is reaped: a new postmaster would take it for alive, and refuse to start."""
        last = read_postmaster(self.paths.data)
        if last is not None:
            wait_until(lambda: not is_zombie(last.pid), timeout=_REAPING_TIMEOUT)

    def _remove_stale_pid(self) -> None:
        """Remove the files of a dead postmaster if another process has its process id now, as after a reboot.

        A new postmaster would take that process for the old postmaster, and never start. The files are removed only if
        the cluster has no processes.
        """
        data = self.paths.data
        pid = told_pid(data)
        if pid is not None and not has_ended(pid) and has_no_process(self.paths):
            log.warning("cluster.stale_pid", extra={"root": str(self.paths.root), "stranger": pid})
            for lock in self.paths.sockets(self.account).glob(".s.PGSQL.*.lock"):
                lock.unlink(missing_ok=True)
            (data / PID_FILE).unlink(missing_ok=True)

    def _settled(self) -> Postmaster | None:
        """Returns the running postmaster, or None. Waits while a postmaster is starting or stopping."""

        def is_settled() -> bool:
            found = live_postmaster(self.paths.data)
            return found is None or found.is_ready

        if not wait_until(is_settled, timeout=self.timeout):
            raise self._too_slow()
        return live_postmaster(self.paths.data)

    def _start(self) -> str | None:
        """Start a postmaster, and wait. Returns None when the postmaster is ready, or its output if it ends."""
        command = self._command()
        said_before = self._rotate_log()
        pid = spawn_daemon(command, self.account, self.paths.log)
        if not wait_until(lambda: self._is_ready(pid) or has_ended(pid), timeout=self.timeout):
            raise self._too_slow()
        return None if self._is_ready(pid) else _read_from(self.paths, said_before)

    def _is_ready(self, pid: int) -> bool:
        found = read_postmaster(self.paths.data)
        return found is not None and found.pid == pid and found.is_ready and live_postmaster(self.paths.data) == found

    def _command(self) -> list[str]:
        self.write_settings()
        sockets = os.fspath(self.paths.make_sockets(self.account))
        fixed = {
            "unix_socket_directories": as_list_item(sockets),
            "unix_socket_permissions": "0700",
            "listen_addresses": "" if self.port is None else LOOPBACKS[0],
            "port": str(self._choose_port()),
            "ssl": "on" if self.tls else "off",
        }
        if self.tls:
            pem = f"../{self.paths.secret_pem.name}"
            fixed |= {"ssl_cert_file": pem, "ssl_key_file": pem}
        return [os.fspath(self.binaries.postgres), "-D", os.fspath(self.paths.data), *as_arguments(fixed)]

    def write_settings(self) -> None:
        """Write the settings to the file that the server reads at its start, and after SIGHUP."""
        zones_known = self.binaries.knows_time_zones()
        if not zones_known:
            # Clients that set a time zone by name, as Django does, will be refused.
            log.warning("cluster.time_zones_missing", extra={"root": str(self.paths.root), "remedy": "install tzdata"})
        settings = {**DEFAULTS, **time_zone_settings(zones_known=zones_known), **self.settings}
        write_whole(self.paths.settings, os.fsencode(render(settings)), self.account)

    def _choose_port(self) -> int:
        if self.port != "free":
            return self.port or SOCKET_ONLY_PORT
        port = _any_port(_last_port(self.paths))
        write_whole(self.paths.port, str(port).encode(), self.account)
        return port

    def _is_temporary(self, complaint: str) -> bool:
        if _PORT_COMPLAINT in complaint:
            return self.port == "free"  # another program took it after it was found free
        return any(text in complaint for text in _ORPHANS_COMPLAINTS)

    def _failure(self, complaint: str) -> Exception:
        if _PORT_COMPLAINT in complaint and "Address already in use" in complaint:
            return AddressInUse(f"Port {self.port} is used by another program: choose another port for PostgreSQL.")
        return ClusterFailed(
            f"PostgreSQL did not start in {self.paths.root} ({_reason(complaint)}): see {self.paths.log}.",
            log_tail=tail_of(self.paths),
        )

    def _too_slow(self) -> ClusterFailed:
        return ClusterFailed(
            f"PostgreSQL in {self.paths.root} still runs after {self.timeout:g} s, but is not ready: "
            f"see {self.paths.log}, and try again.",
            log_tail=tail_of(self.paths),
        )

    def _rotate_log(self) -> int:
        try:
            size = self.paths.log.stat().st_size
        except FileNotFoundError:
            return 0
        if size <= _LARGEST_LOG:
            return size
        self.paths.log.replace(self.paths.old_log)
        return 0


def halt(paths: ClusterPaths, mode: StopMode, timeout: float) -> bool:
    """Stop the cluster, and wait until it has stopped. Returns True if the cluster ran.

    Raises ClusterFailed if the cluster does not stop in time.
    """
    found = live_postmaster(paths.data)
    if found is None:
        return False
    os.kill(found.pid, _SIGNALS[mode])
    if not wait_until(lambda: _is_gone(paths, found.pid), timeout=timeout):
        raise ClusterFailed(
            f"PostgreSQL in {paths.root} did not stop within {timeout:g} s of a {mode} shutdown: "
            "end its clients, or stop the cluster in immediate mode.",
            log_tail=tail_of(paths),
        )
    return True


def tail_of(paths: ClusterPaths, lines: int = 20) -> str:
    """Returns the last lines of PostgreSQL's log; empty if there is no log."""
    try:
        size = paths.log.stat().st_size
    except FileNotFoundError:
        return ""
    return "\n".join(_read_from(paths, max(0, size - 200 * lines)).splitlines()[-lines:])


def _is_gone(paths: ClusterPaths, pid: int) -> bool:
    found = read_postmaster(paths.data)
    return found is None or found.pid != pid or has_ended(pid)


def _read_from(paths: ClusterPaths, offset: int) -> str:
    with paths.log.open("rb") as file:
        file.seek(offset)
        return file.read().decode(errors="replace")


def _reason(complaint: str) -> str:
    fatal = [line for line in complaint.splitlines() if "FATAL:" in line or "PANIC:" in line]
    last = (fatal or complaint.splitlines() or ["it printed nothing"])[-1]
    return last.partition("FATAL:")[2].strip() or last.strip()


def _last_port(paths: ClusterPaths) -> int:
    try:
        return int(paths.port.read_text())
    except (FileNotFoundError, ValueError):
        return 0


def free_port(preferred: int) -> int | None:
    """Returns the port `preferred`, or None if that port is taken. `preferred=0` means any free port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACKS[0], preferred))
        except OSError:
            return None
        return int(probe.getsockname()[1])


def _any_port(preferred: int) -> int:
    if port := free_port(preferred) or free_port(0):
        return port
    raise ClusterFailed("This machine has no free port left on its loopback address: close some connections.")
