"""Processes that hold a lease, or wait for one, and say so: to be killed, stopped and asked."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from interlock import AsyncInterlock, LeaseLost
from interlock.coordination.events import Event, Waiting


class Program:
    """`line()` is its next line of output. Its input is written line by line as well."""

    def __init__(self, url: str, name: str, ttl: float, slots: int | None) -> None:
        root = Path(__file__).parents[1]
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(root)]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "conformance.programs", url, name, str(ttl), str(slots or "")],
            env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> list[str]:
        assert self._process.stdout is not None
        return self._process.stdout.readline().split()

    def tell(self, what: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self.go_on()
        self.kill()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


@contextmanager
def started(url: str) -> Iterator[Callable[..., Program]]:
    programs: list[Program] = []

    def start(name: str, *, ttl: float = 30.0, slots: int | None = None) -> Program:
        programs.append(Program(url, name, ttl, slots))
        return programs[-1]

    try:
        yield start
    finally:
        for program in programs:
            program.close()


async def main(url: str, name: str, ttl: float, slots: int | None) -> None:
    def say(*words: object) -> None:
        print(*words, flush=True)

    def on_event(event: Event) -> None:
        if isinstance(event, Waiting):
            say("waiting")

    async with AsyncInterlock(url, on_event=on_event) as locks:
        grant = await locks.lease(name, ttl=ttl, slots=slots).acquire()
        say("held", grant.token)
        while True:
            word = (await asyncio.to_thread(sys.stdin.readline)).strip()
            if word == "release":
                say("released", await grant.release())
            elif word == "check":
                try:
                    grant.check()
                    say("trusted")
                except LeaseLost:
                    say("lost")
            else:
                return


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]) if sys.argv[4] else None))
