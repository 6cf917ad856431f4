"""A PostgreSQL cluster made by hand: initdb, and a start until it answers."""

import shutil
from pathlib import Path

from benchmarks.servers.process import ServerFailed, free_port
from interlock.embedded import find_binaries, within_reach
from interlock.embedded.accounts import account_for
from interlock.embedded.files import make_private, make_reachable, write_whole
from interlock.embedded.processes import run

_TIMEOUT = 120.0


class BareCluster:
    """A cluster with the options of Interlock's own: passwords, checksums, UTF-8, synced when initdb returns."""

    def __init__(self, directory: Path) -> None:
        self._account = account_for()
        make_reachable(directory, self._account)
        self._binaries = within_reach(find_binaries(), self._account, directory)
        self._home = directory / "home"
        self._data = self._home / "data"
        self._password = directory / "password"
        write_whole(self._password, b"of no use", self._account)

    def make(self) -> None:
        make_private(self._home, self._account)
        self._run(
            "initdb",
            f"--pgdata={self._data}",
            "--username=postgres",
            f"--pwfile={self._password}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--data-checksums",
            "--no-instructions",
        )

    def start(self) -> None:
        options = f"-p {free_port()} -h 127.0.0.1 -k {self._home}"
        self._run("pg_ctl", "start", "--wait", "-D", self._data, "-l", self._home / "log", "-o", options)

    def remove(self) -> None:
        self._run("pg_ctl", "stop", "--wait", "-m", "immediate", "-D", self._data)
        shutil.rmtree(self._home)

    def _run(self, tool: str, *arguments: str | Path) -> None:
        status, _, complaint = run([self._binaries.tool(tool), *arguments], self._account, timeout=_TIMEOUT)
        if status:
            raise ServerFailed((complaint.strip().splitlines()[-1:] or [f"{tool} ended with status {status}"])[0])
