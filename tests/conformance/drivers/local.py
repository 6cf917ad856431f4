"""Instances as processes of this machine: a directory for each test, and processes that die in the middle."""

import asyncio
import os
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest

from conformance.drivers.stage import Kind, Stage, Verb
from interlock.embedded import Cluster
from interlock.embedded.layout import Layout
from interlock.embedded.remains import remains
from interlock.errors import InterlockError
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Endpoint, Spec
from support.postgres import open_directory

# Apart from those of other test processes, which would take what an instance of ours leaves when it is stopped.
FIRST_PORT = 20000 + os.getpid() % 200 * 50


class LocalStage:
    def __init__(self, root: Path) -> None:
        self.root = root

    def driver(self) -> LocalDriver:
        return local_driver(self.root)

    async def crash(self, verb: Verb, spec: Spec, after: int) -> bool:
        return await asyncio.to_thread(_run_until, self.root, verb, spec, after)

    async def put_foreign(self, spec: Spec) -> Callable[[], bool]:
        place = self.root / spec.id
        place.mkdir(parents=True)
        (place / "thesis.odt").write_text("mine")
        return lambda: [(file.name, file.read_text()) for file in place.iterdir()] == [("thesis.odt", "mine")]

    async def leftovers(self, id: str) -> list[str]:  # noqa: A002
        place = self.root / id
        processes = remains(Layout(place / "postgresql"))
        return [*(f"process {pid}" for pid in processes), *([str(place)] if place.exists() else [])]

    async def lets_in(self, endpoint: Endpoint, password: str) -> bool:
        trusting = ssl.create_default_context(cadata=endpoint.ca)
        trusting.verify_flags |= ssl.VERIFY_X509_STRICT
        try:
            connection = await asyncpg.connect(
                host=endpoint.host,
                port=endpoint.port,
                user=endpoint.user,
                database=endpoint.database,
                password=password,
                ssl=trusting,
            )
        except (asyncpg.InvalidPasswordError, ConnectionError):
            return False
        try:
            await connection.execute("CREATE TABLE IF NOT EXISTS visits (at timestamptz)")
        finally:
            await connection.close()
        return True


def local_driver(root: Path, first_port: int = FIRST_PORT) -> LocalDriver:
    pg_bin = os.environ.get("INTERLOCK_PG_BIN")
    return LocalDriver(root, ports=range(first_port, first_port + 50), pg_bin=Path(pg_bin) if pg_bin else None)


@contextmanager
def local_stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with open_directory("interlock-instances-") as place:
        try:
            yield LocalStage(place / "instances")
        finally:
            stop_all(place)


def stop_all(place: Path) -> None:
    for lock in list(place.glob("**/control.lock")):
        try:
            Cluster(lock.parent).delete("immediate")
        except InterlockError as error:  # the test says more about what went wrong
            print(error, file=sys.stderr)


def _run_until(root: Path, verb: Verb, spec: Spec, after: int) -> bool:
    tests = Path(__file__).parents[2]
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(tests)]))
    arguments = [str(root), str(FIRST_PORT), verb, spec.id, spec.name, str(after)]
    done = subprocess.run(
        [sys.executable, "-m", "conformance.drivers.dying", *arguments],
        env=os.environ | {"PYTHONPATH": path},
        check=False,
    )
    assert done.returncode in (0, -9)
    return done.returncode == -9


LOCAL = Kind(local_stage, steps={"provision": 8, "remove": 5})
