"""A role with the privileges of `interlock schema grant` for orchestrations, and with its own engine schema."""

from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from interlock import AsyncDurable, schema
from support.durable_steps import TABLES, three, work
from support.postgres import execute


@pytest.fixture
def granted_url(interlock_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    parts = urlsplit(interlock_url)
    role = f"worker_of_{parts.path.lstrip('/')}"
    execute(interlock_url, f"CREATE ROLE {role} LOGIN PASSWORD 'geheim'")
    execute(interlock_url, schema.grant_sql(role, "interlock", ["leases", "orchestrations"]))
    execute(interlock_url, f"CREATE SCHEMA interlock_engine AUTHORIZATION {role}")
    execute(interlock_url, TABLES)
    execute(interlock_url, f"GRANT ALL ON begun, working, written TO {role}")
    url = urlunsplit(parts._replace(netloc=f"{role}:geheim@{parts.hostname}:{parts.port}"))
    monkeypatch.setenv("STEPS_URL", url)
    return url


async def test_the_granted_role_can_start_run_and_prune_orchestrations(granted_url: str) -> None:
    async with AsyncDurable(work, url=granted_url) as durable:
        handle = await durable.start(three, "one", 0.0)
        assert await handle.wait(50) == [1, 2, 3]
        async with await psycopg.AsyncConnection.connect(granted_url) as connection:
            recorded = await durable.start(three, "two", 0.0, connection=connection)
        assert await recorded.wait(50) == [1, 2, 3]
        await durable.cancel("two")
        assert (await recorded.status()).state == "completed"
        await durable.prune(3600)
