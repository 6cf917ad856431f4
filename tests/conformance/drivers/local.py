"""Instances as processes of this machine: a directory for each test, and processes that die in the middle."""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest

from conformance.drivers.stage import Kind, Stage, Verb
from interlock.embedded.orphans import processes_of
from interlock.embedded.paths import ClusterPaths
from interlock.instances.drivers.local import LocalDriver
from interlock.instances.drivers.port import Endpoint, Spec
from support.local_instances import connected, local_driver, place_for_instances, run_until


class LocalStage:
    def __init__(self, root: Path) -> None:
        self.root = root

    def driver(self) -> LocalDriver:
        return local_driver(self.root)

    async def crash(self, verb: Verb, spec: Spec, after: int) -> bool:
        return await asyncio.to_thread(run_until, self.root, verb, spec, after)

    async def put_foreign(self, spec: Spec) -> Callable[[], bool]:
        place = self.root / spec.id
        place.mkdir(parents=True)
        (place / "thesis.odt").write_text("mine")
        return lambda: [(file.name, file.read_text()) for file in place.iterdir()] == [("thesis.odt", "mine")]

    async def leftovers(self, id: str) -> list[str]:  # noqa: A002
        place = self.root / id
        processes = processes_of(ClusterPaths(place / "postgresql"))
        return [*(f"process {pid}" for pid in processes), *([str(place)] if place.exists() else [])]

    async def lets_in(self, endpoint: Endpoint, password: str) -> bool:
        try:
            connection = await connected(endpoint, password)
        except (asyncpg.InvalidPasswordError, ConnectionError, ssl.SSLCertVerificationError):
            return False
        try:
            await connection.execute("CREATE TABLE IF NOT EXISTS visits (at timestamptz)")
        finally:
            await connection.close()
        return True


@contextmanager
def local_stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with place_for_instances() as place:
        yield LocalStage(place / "instances")


LOCAL = Kind(local_stage, steps={"provision": 8, "remove": 5, "use_certificate": 5})
