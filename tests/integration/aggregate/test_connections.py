"""The statements of records work on every kind of connection, and in a schema with another name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from interlock.aggregate.transactions import Transactions
from interlock.dns import NoDns
from interlock.instances.backups.model import BackupSettings
from interlock.instances.backups.records import BackupRecords
from interlock.instances.context import InstanceContext
from interlock.instances.orchestrations import InstanceLifecycle
from interlock.instances.requests import Instances
from interlock.schema import whole_schema
from support.paper_driver import PaperDriver
from support.postgres import execute


@asynccontextmanager
async def opened(kind: str, url: str) -> AsyncIterator[Any]:
    if kind == "psycopg":
        async with await psycopg.AsyncConnection.connect(url) as connection:
            yield connection
    elif kind == "asyncpg":
        raw = await asyncpg.connect(url)
        try:
            async with raw.transaction():
                yield raw
        finally:
            await raw.close()
    else:
        driver, _, what = kind.partition(":")
        engine = create_async_engine(url.replace("postgresql://", f"postgresql+{driver}://"))
        try:
            if what == "session":
                async with AsyncSession(engine) as session, session.begin():
                    yield session
            else:
                async with engine.begin() as connection:
                    yield connection
        finally:
            await engine.dispose()


@pytest.mark.exhaustive(beyond=4)
@pytest.mark.parametrize("schema", ["interlock", "control_2"])
@pytest.mark.parametrize("kind", ["psycopg", "asyncpg", "psycopg:connection", "asyncpg:connection", "asyncpg:session"])
async def test_every_kind_of_connection_can_make_every_request(
    interlock_url: str, kind: str, schema: str, tmp_path: Path
) -> None:
    if schema != "interlock":
        execute(interlock_url, "DROP SCHEMA interlock CASCADE")
        execute(interlock_url, whole_schema(schema))
    transactions = Transactions(interlock_url, "instances")
    driver = PaperDriver(lambda: interlock_url, lambda: None)  # type: ignore[arg-type,return-value]
    context = InstanceContext(transactions, schema, {"paper": driver}, NoDns(), backups=BackupSettings(tmp_path))
    instances = Instances(InstanceLifecycle(context))
    backups = BackupRecords(schema)
    async with opened(kind, interlock_url) as on:
        made = await instances.create(
            on, "shop", driver="paper", version=17, storage="10Gi", parameters={"work_mem": "1MB"}, tags={"a": "ü"}
        )
        await instances.create(on, "orders", driver="paper")
        assert (made.storage_bytes, made.parameters, made.tags) == (10 * 2**30, {"work_mem": "1MB"}, {"a": "ü"})
        page = await instances.records.page(on, sort="created", limit=1, states=["creating"], name_part="o", tags={})
        assert [one.name for one in page.items] == ["shop"]
        rest = await instances.records.page(on, sort="created", limit=1, after=page.following)
        assert [one.name for one in rest.items] == ["orders"]
        assert (await instances.records.page(on, tags={"a": "ü"}, descending=True)).items == [made]
        at = datetime.now(UTC)
        await instances.records.change(on, made.id, at, port=5432, host="h", names_freed_at=None, working=True)
        changed = await instances.records.lock(on, made.id)
        assert (changed.port, changed.updated_at, changed.revision) == (5432, at, 2)
        deleting = await instances.delete(on, made.id, by="key:a")
        assert (deleting.state, deleting.revision > changed.revision, deleting.working) == ("deleting", True, True)
        await instances.cancel(on, made.id)
        kinds = [one.kind for one in await instances.records.events.list(on, made.id)]
        assert kinds == ["cancel requested", "delete requested", "create requested"]
        newest = (await instances.records.events.list(on, made.id, 1))[0]
        older = await instances.records.events.list(on, made.id, after=(newest.recorded_at, newest.kind))
        assert [one.kind for one in older] == kinds[1:]
        assert (await backups.page(on, instance="shop", states=["made"], descending=True)).items == []
    await transactions.close()
