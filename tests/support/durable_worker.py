"""A replica that runs orchestrations in a process of its own. Tests kill, stop and end it.

    python -m support.durable_worker URL MODULE

Ends properly when it is told to (SIGTERM). `MODULE` declares the work, as `work`.
"""

import asyncio
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGTERM

from interlock.durable.replica import AsyncDurable


class Worker:
    """A worker process; it is ready when `wait_until_ready` has returned."""

    def __init__(self, url: str, module: str, program: str = __name__, *args: str) -> None:
        self._complaints = tempfile.NamedTemporaryFile("a")  # noqa: SIM115 # closed by `end`
        tests = str(Path(__file__).parent.parent)
        paths = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), tests]))
        self.process = subprocess.Popen(
            [sys.executable, "-m", program, url, module, *args],
            env=os.environ | {"PYTHONPATH": paths, "STEPS_URL": url},
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n", self.complaints()

    def send(self, signum: int) -> None:
        self.process.send_signal(signum)

    def kill(self) -> None:
        self.send(SIGKILL)
        self.process.wait()

    def complaints(self) -> str:
        return Path(self._complaints.name).read_text()

    def end(self) -> None:
        if self.process.poll() is None:
            self.send(SIGCONT)
            self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._complaints.close()


@contextmanager
def workers(url: str, count: int, module: str = "support.durable_steps") -> Iterator[list[Worker]]:
    team = [Worker(url, module) for _ in range(count)]
    try:
        for worker in team:
            worker.wait_until_ready()
        yield team
    finally:
        for worker in team:
            worker.end()


async def take_part(url: str, module: str) -> None:
    told_to_end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(SIGTERM, told_to_end.set)
    async with AsyncDurable(*import_module(module).parts, url=url):
        print("ready", flush=True)
        await told_to_end.wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    asyncio.run(take_part(*sys.argv[1:]))
