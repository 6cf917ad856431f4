"""The whole application on the test's own database, with a fake driver, called without a socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from interlock.aggregate.transactions import Transactions
from interlock.config import Settings
from interlock.dns import Dns, NoDns
from interlock.instances.backups.model import BackupSettings
from interlock.instances.context import InstanceContext, InstanceTiming
from interlock.instances.drivers.port import Driver
from interlock.keys.records import new_key
from interlock.schema import State
from interlock.schema.status import SchemaStatus
from interlock.server.application import make_application
from interlock.server.control import Control, open_control
from interlock.server.readiness import Readiness
from interlock.server.startup import Startup
from support.instances import QUICK
from support.local_instances import PG_BIN
from support.postgres import execute
from support.waiting import eventually

STATUS = SchemaStatus("interlock", State.CURRENT, frozenset(), ())
ADDRESS = "http://interlock.test"


@dataclass
class Api:
    """The application; requests of `client` have a valid key."""

    url: str
    app: FastAPI
    control: Control
    client: httpx.AsyncClient
    key: str

    async def create(self, name: str, **wishes: Any) -> Any:
        answer = await self.client.post("/api/v1/instances", json={"name": name, **wishes})
        assert answer.status_code == 202, answer.text
        return answer.json()

    async def show(self, id_or_name: str) -> Any:
        answer = await self.client.get(f"/api/v1/instances/{id_or_name}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def ask(self, method: str, path: str, **more: Any) -> Any:
        """Send a request that has to succeed. Returns its answer."""
        answer = await self.client.request(method, f"/api/v1{path}", **more)
        assert answer.is_success, answer.text
        return answer.json()

    async def refused(self, method: str, path: str, status: int, **more: Any) -> Any:
        """Send a request that has to be refused. Returns the problem."""
        answer = await self.client.request(method, f"/api/v1{path}", **more)
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
        assert answer.json()["status"] == status
        return answer.json()

    async def settled(self, id_or_name: str) -> Any:
        """The instance once no orchestration works on it any more."""
        id = (await self.show(id_or_name))["id"]  # noqa: A001
        idle = "SELECT 1 FROM interlock.instance WHERE id = %s AND NOT working"
        await asyncio.to_thread(eventually, lambda: execute(self.url, idle, id))
        return await self.show(id)

    def stranger(self, key: str | None = None) -> httpx.AsyncClient:
        """A client with another key, or without one."""
        return _client(self.app, key)


@asynccontextmanager
async def working_api(
    url: str, data_dir: Path, driver: Driver, *, dns: Dns | None = None, timing: InstanceTiming = QUICK
) -> AsyncIterator[Api]:
    """The API of a replica that carries out requests."""

    def context(settings: Settings, database: Transactions) -> InstanceContext:
        kept = BackupSettings(settings.backup_directory, pg_bin=PG_BIN)
        return InstanceContext(database, settings.schema, {"local": driver}, dns or NoDns(), timing, kept)

    settings = Settings(database_url=url, data_dir=data_dir)
    async with open_control(settings, url, ADDRESS, context) as control, _served(control, url) as api:
        yield api


class IdleControl(Control):
    async def begin(self, orchestration: str) -> None:
        """Does nothing: no replica carries it out."""


@asynccontextmanager
async def resting_api(url: str, driver: Driver) -> AsyncIterator[Api]:
    """The API without a replica that carries out requests, for tests of the answers alone."""
    settings = Settings(database_url=url)
    async with AsyncExitStack() as stack:
        database = Transactions(url, "instances")
        stack.push_async_callback(database.close)
        control = IdleControl(
            settings, url, InstanceContext(database, settings.schema, {"local": driver}, NoDns(), QUICK)
        )
        stack.push_async_callback(control.pool.close)
        stack.push_async_callback(control.locks.close)
        yield await stack.enter_async_context(_served(control, url))


@asynccontextmanager
async def _served(control: Control, url: str) -> AsyncIterator[Api]:
    startup = Startup()
    startup.finish(url, STATUS, control)
    readiness = Readiness(startup)
    app = make_application(startup, readiness, "a database")
    key = new_key()
    async with control.pool.session() as session:
        await control.keys.register(session, key, "test")
    async with _client(app, key) as client:
        yield Api(url, app, control, client, key)
    await readiness.close()


def _client(app: FastAPI, key: str | None) -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=ADDRESS, headers=headers, timeout=50)


def count(url: str, table: str) -> int:
    [(found,)] = execute(url, f"SELECT count(*) FROM interlock.{table}")
    return int(found)
