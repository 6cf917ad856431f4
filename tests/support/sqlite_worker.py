"""A process that acquires leases of a SQLite file in turn, writes under each, and prints what it has written.

    python -m support.sqlite_worker FILE NAME… [--ttl SECONDS]

It prints a line for each committed write: name and token. With `--no-guard` writes are not checked, which the test has
to detect.
"""

import argparse
import itertools
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

from interlock import Interlock, LeaseLost

LEDGER = "CREATE TABLE IF NOT EXISTS ledger (place INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, token INTEGER)"


def main() -> None:
    wanted = argparse.ArgumentParser()
    wanted.add_argument("file", type=Path)
    wanted.add_argument("names", nargs="+")
    wanted.add_argument("--ttl", type=float, default=0.5)
    wanted.add_argument("--no-guard", action="store_true")
    given = wanted.parse_args()
    connection = sqlite3.connect(given.file, isolation_level=None, timeout=20)
    with Interlock(f"sqlite:///{given.file}") as locks:
        for name in itertools.cycle(given.names):
            try:
                with locks.lease(name, ttl=given.ttl) as grant:
                    connection.execute("BEGIN" if given.no_guard else "BEGIN IMMEDIATE")
                    try:
                        if not given.no_guard:
                            grant.guard(connection)
                        connection.execute("INSERT INTO ledger (name, token) VALUES (?, ?)", (name, grant.token))
                        connection.execute("COMMIT")
                    except BaseException:
                        connection.execute("ROLLBACK")
                        raise
                    print(name, grant.token, flush=True)
            except LeaseLost:
                continue


class Worker:
    def __init__(self, file: Path, *names: str, first: int = 0, options: tuple[str, ...] = ()) -> None:
        order = [*names[first % len(names) :], *names[: first % len(names)]]
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(Path(__file__).parents[1])]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.sqlite_worker", str(file), *order, *options],
            env=os.environ | {"PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.written: list[tuple[str, int]] = []

    def next(self) -> tuple[str, int]:
        """The next write that it prints. Raises if there is none."""
        assert self._process.stdout is not None
        name, token = self._process.stdout.readline().split()
        self.written.append((name, int(token)))
        return self.written[-1]

    def send(self, signum: int) -> None:
        self._process.send_signal(signum)

    def kill(self) -> None:
        """Kill the process and read its remaining output, without an incomplete last line."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):
                name, token = line.split()
                self.written.append((name, int(token)))
        self._process.stdout.close()


if __name__ == "__main__":
    main()
