"""A role that was given what `interlock schema grant` gives, and nothing else."""

from urllib.parse import urlsplit, urlunsplit

import pytest

from interlock import AsyncGate, Timing, errors, schema
from interlock.stores.postgres import connect
from support.postgres import execute

FORBIDDEN = [
    "CREATE TABLE interlock.own ()",
    "DELETE FROM interlock.gate_run",
    "DELETE FROM interlock.gate_step",
    "UPDATE interlock.migration SET name = 'other'",
    "INSERT INTO interlock.migration (version, phase, name) VALUES (9000, 'post', 'forged')",
    "UPDATE interlock.gate_intervention SET reason = 'other'",
    "TRUNCATE interlock.gate_run",
    "DROP TABLE interlock.gate_run",
    "DROP FUNCTION interlock.now_v1()",
    "DROP SCHEMA interlock CASCADE",
    "ALTER TABLE interlock.gate_run ADD COLUMN own integer",
    "CREATE OR REPLACE FUNCTION interlock.now_v1() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'",
    "CREATE SCHEMA own",
]


@pytest.fixture
def role(interlock_url: str) -> str:
    role = f"Web of {urlsplit(interlock_url).path.lstrip('/')}"
    execute(interlock_url, f"CREATE ROLE \"{role}\" LOGIN PASSWORD 'geheim'")
    return role


@pytest.fixture
def granted_url(interlock_url: str, role: str) -> str:
    execute(interlock_url, schema.grant_sql(role, "interlock"))
    parts = urlsplit(interlock_url)
    return urlunsplit(parts._replace(netloc=f"{role.replace(' ', '%20')}:geheim@{parts.hostname}:{parts.port}"))


async def test_it_passes_a_gate_with_a_step_and_leaves_its_record(interlock_url: str, granted_url: str) -> None:
    async with AsyncGate("shop", url=granted_url) as passage:
        assert passage.needed
        await passage.report("starting")
        assert await passage.step("create index", lambda: {"documents": 3}) == {"documents": 3}
    assert execute(interlock_url, "SELECT outcome, step FROM interlock.gate_run") == [("done", "create index")]
    assert execute(interlock_url, "SELECT count(*) FROM interlock.gate_step WHERE finished_at IS NOT NULL") == [(1,)]


async def test_it_sees_off_a_predecessor_that_died(interlock_url: str, granted_url: str) -> None:
    for fence in (1, 2):
        async with AsyncGate("shop", url=granted_url, timing=Timing(ttl=6, check_interval=0.1)) as passage:
            assert passage.fence == fence
        if fence == 1:
            execute(interlock_url, "UPDATE interlock.gate_run SET ended_at = NULL, outcome = NULL")
    assert execute(interlock_url, "SELECT outcome FROM interlock.gate_run ORDER BY fence") == [
        ("abandoned",),
        ("done",),
    ]


async def test_it_can_do_nothing_beyond_that(granted_url: str) -> None:
    async with await connect(granted_url, application_name="test") as session:
        for statement in FORBIDDEN:
            with pytest.raises(errors.PermissionMissing):
                await session.execute(statement)


async def test_a_role_that_does_not_exist_is_not_granted_anything(interlock_url: str) -> None:
    async with await connect(interlock_url, application_name="test") as session:
        with pytest.raises(errors.ConfigurationError, match="There is no role 'nobody-here' in this database"):
            await schema.grant(session, "nobody-here", "interlock")


async def test_nothing_can_be_granted_before_the_schema_is_there(database_url: str) -> None:
    async with await connect(database_url, application_name="test") as session:
        with pytest.raises(errors.SchemaMissing, match="run `interlock schema apply`"):
            await schema.grant(session, "pg_monitor", "interlock")


async def test_a_role_without_the_grant_gets_a_remedy(interlock_url: str, role: str) -> None:
    parts = urlsplit(interlock_url)
    url = urlunsplit(parts._replace(netloc=f"{role.replace(' ', '%20')}:geheim@{parts.hostname}:{parts.port}"))
    with pytest.raises(errors.PermissionMissing, match=r"let the schema's owner run .* `interlock schema grant ROLE"):
        async with AsyncGate("shop", url=url):
            pass
