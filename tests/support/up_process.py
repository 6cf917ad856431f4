"""`interlock up` as a real process, whose output can be read while it runs."""

import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from interlock.embedded import Cluster
from support.postgres import open_directory
from support.programs import environment, invocation
from support.waiting import eventually


class Up:
    """One replica on a free port, with a data directory that its neighbours share.

    Its output goes to files, because a pipe that is not read would block it.
    """

    def __init__(self, directory: Path, *args: str, url: str | None = None, ignoring: str = "", **env: str) -> None:
        self._out, self._err = directory / "stdout", directory / "stderr"
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                invocation("up", "--port", "0", *args, ignoring=ignoring),
                env=environment(url, **{"INTERLOCK_DATA_DIR": str(directory.parent / "data")} | env),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def stdout(self) -> str:
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    @property
    def said(self) -> str:
        return self.stdout + self.stderr

    def logs(self, text: str) -> bool:
        assert self.process.poll() is None, self.said
        return text in self.stderr

    def address(self) -> str:
        """The URL on which it listens, as soon as it does."""
        eventually(lambda: self.logs("server.listening"))
        found = re.search(r"server\.listening +url=(\S+)", self.stderr)
        assert found
        return found[1]

    def get(self, path: str) -> httpx.Response:
        # There is no TLS here, and loading the certificates that httpx would trust takes longer than the request.
        return httpx.get(self.address() + path, timeout=5, trust_env=False, verify=False)  # noqa: S501

    def phase(self) -> Any:
        return self.get("/health/startup").json()["phase"]

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.said
        return self.get("/health/ready").status_code == 200

    def wait_ready(self) -> None:
        eventually(self.is_ready)

    def stop(self, signum: int = signal.SIGTERM) -> int:
        """Stop it, and wait for its end. Returns the exit status."""
        self.process.send_signal(signum)
        return self.process.wait(timeout=30)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


Starter = Callable[..., Up]


@contextmanager
def replicas() -> Iterator[Starter]:
    """A function that starts replicas. All of them are stopped at the end of the block."""
    running: list[Up] = []
    with open_directory("interlock-up-") as directory:

        def start(*args: str, url: str | None = None, ignoring: str = "", **env: str) -> Up:
            own = directory / str(len(running))
            own.mkdir()
            running.append(Up(own, *args, url=url, ignoring=ignoring, **env))
            return running[-1]

        try:
            yield start
        finally:
            for up in running:
                up.kill()


@contextmanager
def data_directory() -> Iterator[Path]:
    """The path of a data directory that does not exist yet. A cluster that still runs in it at the end is stopped."""
    with open_directory("interlock-up-data-") as directory:
        data = directory / "data"
        try:
            yield data
        finally:
            Cluster(data / "postgres").stop("immediate")
