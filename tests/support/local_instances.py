"""Instances of the driver `local`, in directories of the test's own."""

import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import asyncpg

from interlock.embedded import Cluster
from interlock.errors import EmbeddedError
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Endpoint, Spec
from support.postgres import open_directory

# Apart from those of other test processes, which would take what an instance of ours leaves when it is stopped: of the
# same run, by their number in it, and of other runs. Each test begins at the first; what lasts longer than a test has
# ports further on.
_WORKERS = 8
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
FIRST_PORT = 20000 + (os.getppid() % 15 * _WORKERS + _WORKER) * 100
PORTS_OF_SHOP, PORTS_OF_PAPER, PORTS_OF_HARNESS = FIRST_PORT + 40, FIRST_PORT + 50, FIRST_PORT + 60
PG_BIN = Path(os.environ["INTERLOCK_PG_BIN"]) if os.environ.get("INTERLOCK_PG_BIN") else None


def new_spec(name: str = "shop", **wishes: Any) -> Spec:
    return Spec(id=str(uuid4()), name=name, **wishes)


def local_driver(root: Path, first_port: int = FIRST_PORT, ports: int = 40) -> LocalDriver:
    return LocalDriver(root, ports=range(first_port, first_port + ports), pg_bin=PG_BIN)


@contextmanager
def place_for_instances() -> Iterator[Path]:
    """A directory for instances. Servers that still run in it are stopped at the end."""
    with open_directory("interlock-instances-") as place:
        try:
            yield place
        finally:
            end_all(place)


def end_all(place: Path) -> None:
    for lock in list(place.glob("**/control.lock")):
        with suppress(EmbeddedError):
            Cluster(lock.parent).delete("immediate")


async def connected(endpoint: Endpoint, password: str) -> "asyncpg.Connection[asyncpg.Record]":
    """Connect as the owner, over TLS with the strictest possible verification."""
    trusting = ssl.create_default_context(cadata=endpoint.ca)
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT
    return await asyncpg.connect(
        host=endpoint.host,
        port=endpoint.port,
        user=endpoint.user,
        database=endpoint.database,
        password=password,
        ssl=trusting,
    )


async def as_owner(driver: LocalDriver, id: str) -> "asyncpg.Connection[asyncpg.Record]":  # noqa: A002
    """A connection to a running instance."""
    endpoint = (await driver.observe(id)).endpoint
    assert endpoint is not None
    return await connected(endpoint, await driver.password(id))


class Shop(NamedTuple):
    """A running instance."""

    driver: LocalDriver
    spec: Spec
    root: Path

    @property
    def directory(self) -> Path:
        return self.root / self.spec.id

    async def endpoint(self) -> Endpoint:
        endpoint = (await self.driver.observe(self.spec.id)).endpoint
        assert endpoint is not None
        return endpoint

    async def ask(self, question: str, password: str | None = None) -> Any:
        """Run a query as the owner, over TLS."""
        secret = password or await self.driver.password(self.spec.id)
        connection = await connected(await self.endpoint(), secret)
        try:
            return await connection.fetchval(question)
        finally:
            await connection.close()


def run_until(root: Path, verb: str, spec: Spec, after: int) -> bool:
    """Run the operation in a process that dies after that step. Return False if it has fewer steps."""
    tests = Path(__file__).parents[1]
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(tests)]))
    arguments = [str(root), str(FIRST_PORT), verb, spec.id, spec.name, str(after)]
    done = subprocess.run(
        [sys.executable, "-m", "support.dying_driver", *arguments], env=os.environ | {"PYTHONPATH": path}, check=False
    )
    assert done.returncode in (0, -9)
    return done.returncode == -9
