"""Interlock's schema on real databases: how it gets there, and what is left alone."""

import asyncio
import re
from importlib import import_module
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from interlock import errors, schema
from interlock.schema import State
from interlock.schema.migrations import Migration, MigrationScript, Phase, all_migrations
from interlock.stores.postgres import connect
from support.postgres import dumped, execute

FOREIGN = [
    "CREATE TABLE interlock.orders ()",
    "CREATE TABLE interlock.migration (id integer PRIMARY KEY)",
    "CREATE FUNCTION interlock.total() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "CREATE TYPE interlock.color AS ENUM ('red')",
]

EVERYTHING_THERE = "SELECT relname, relkind FROM pg_class WHERE relnamespace = %s::regnamespace ORDER BY relname"


async def applied(url: str, name: str = "interlock", *, phases: tuple[Phase, ...] = ("pre",)) -> State:
    async with await connect(url, application_name="test") as session:
        return (await schema.apply(session, name, phases=phases)).state


async def status(url: str, name: str = "interlock") -> schema.SchemaStatus:
    async with await connect(url, application_name="test") as session:
        return await schema.read_status(session, name)


def recorded(url: str, name: str = "interlock") -> list[tuple[int, str, str]]:
    rows = execute(url, f'SELECT version, phase, name FROM "{name}".migration ORDER BY version, phase DESC')
    return [(version, phase, called) for version, phase, called in rows]


def all_recorded() -> list[tuple[int, str, str]]:
    return [(one.step.version, one.step.phase, one.name) for one in all_migrations()]


def schema_of(url: str) -> str:
    dump = dumped(url, "--schema-only", "--no-owner")
    return re.sub(r"^(--.*|\\(un)?restrict .*|)\n", "", dump, flags=re.MULTILINE)


def role_without_anything(url: str) -> str:
    """The same database for a role that may connect to it and no more."""
    database = urlsplit(url).path.lstrip("/")
    role = f"web_of_{database}"
    execute(url, f"CREATE ROLE {role} LOGIN PASSWORD 'geheim'")
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{role}:geheim@{parts.hostname}:{parts.port}"))


async def test_changes_since_a_version_lead_to_the_same_schema(database_url: str, interlock_url: str) -> None:
    first = all_migrations()[0]
    execute(database_url, "CREATE SCHEMA interlock;" + first.sql)
    execute(database_url, "INSERT INTO interlock.migration (version, phase, name) VALUES (1, 'pre', %s)", first.name)
    with pytest.raises(errors.SchemaOutdated):
        (await status(database_url)).require()
    execute(database_url, schema.changes_since(1, "interlock"))
    assert schema_of(database_url) == schema_of(interlock_url)
    assert (await status(database_url)).state is State.CURRENT


async def test_it_may_have_another_name_and_live_beside_a_first_one(interlock_url: str) -> None:
    assert (await status(interlock_url, "user")).state is State.MISSING
    assert await applied(interlock_url, "user") is State.CURRENT
    assert recorded(interlock_url, "user") == all_recorded()
    usual, other = (execute(interlock_url, EVERYTHING_THERE, name) for name in ("interlock", '"user"'))
    assert usual == other


async def test_applying_it_again_changes_nothing(interlock_url: str) -> None:
    before = schema_of(interlock_url), execute(interlock_url, "SELECT * FROM interlock.migration")
    assert await applied(interlock_url, phases=("pre", "post")) is State.CURRENT
    assert (schema_of(interlock_url), execute(interlock_url, "SELECT * FROM interlock.migration")) == before


async def test_of_many_that_apply_it_at_once_all_succeed(database_url: str) -> None:
    states = await asyncio.gather(*(applied(database_url) for _ in range(6)))
    assert states == [State.CURRENT] * 6
    assert recorded(database_url) == all_recorded()


async def test_an_empty_schema_is_taken_over(database_url: str) -> None:
    execute(database_url, "CREATE SCHEMA interlock")
    assert (await status(database_url)).state is State.MISSING
    assert await applied(database_url) is State.CURRENT


async def test_a_foreign_schema_is_refused_and_left_alone(database_url: str) -> None:
    for content in FOREIGN:
        execute(database_url, f"CREATE SCHEMA interlock; {content}")
        before = schema_of(database_url)
        with pytest.raises(errors.SchemaForeign, match="is not Interlock's: name another schema with INTERLOCK_SCHEMA"):
            await applied(database_url)
        assert schema_of(database_url) == before
        execute(database_url, "DROP SCHEMA interlock CASCADE")


async def test_a_role_that_may_not_create_schemas_gets_a_remedy(database_url: str) -> None:
    url = role_without_anything(database_url)
    with pytest.raises(
        errors.PermissionMissing, match="let the schema's owner run `interlock schema apply`"
    ) as refusal:
        await applied(url)
    assert "permission denied for database" in str(refusal.value)
    assert "geheim" not in str(refusal.value)
    assert (await status(database_url)).state is State.MISSING


async def test_a_role_that_owns_an_empty_schema_needs_no_more(database_url: str) -> None:
    url = role_without_anything(database_url)
    execute(database_url, f"CREATE SCHEMA interlock AUTHORIZATION {urlsplit(url).username}")
    assert await applied(url) is State.CURRENT


async def test_a_schema_with_more_that_only_adds_can_be_used(interlock_url: str) -> None:
    execute(interlock_url, "INSERT INTO interlock.migration (version, phase, name) VALUES (9000, 'pre', 'later')")
    found = await status(interlock_url)
    found.require()
    assert found.state is State.NEWER
    assert await applied(interlock_url) is State.NEWER


async def test_a_schema_from_which_something_was_taken_away_is_too_new(interlock_url: str) -> None:
    execute(interlock_url, "INSERT INTO interlock.migration (version, phase, name) VALUES (9000, 'post', 'later')")
    with pytest.raises(errors.SchemaTooNew, match="upgrade Interlock here"):
        (await status(interlock_url)).require()
    with pytest.raises(errors.SchemaTooNew):
        await applied(interlock_url)


async def test_a_name_that_cannot_be_a_schemas_is_refused_and_not_called_missing(database_url: str) -> None:
    with pytest.raises(errors.ConfigurationError, match="cannot be the name"):
        await status(database_url, "No Schema")


def test_every_function_carries_a_version(interlock_url: str) -> None:
    rows = execute(interlock_url, "SELECT proname FROM pg_proc WHERE pronamespace = 'interlock'::regnamespace")
    assert ("now_v1",) in rows
    assert all(re.search(r"_v\d+$", name) for (name,) in rows)


class Release:
    """Another release, as far as its migrations are concerned."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def brings(self, *more: Migration) -> None:
        known = (*all_migrations(), *more)
        self._monkeypatch.setattr("interlock.schema.status.all_migrations", lambda: known)


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Release:
    return Release(monkeypatch)


ADDED = Migration(MigrationScript(9001, "pre"), "added", "ALTER TABLE interlock.gate_run ADD COLUMN added integer;")
TAKEN_AWAY = Migration(MigrationScript(9001, "post"), "taken_away", "ALTER TABLE interlock.gate_run DROP COLUMN host;")


async def test_a_post_migration_is_only_applied_on_request(interlock_url: str, release: Release) -> None:
    release.brings(ADDED, TAKEN_AWAY)
    assert (await status(interlock_url)).state is State.OUTDATED
    assert await applied(interlock_url) is State.CURRENT
    assert (await status(interlock_url)).pending == (TAKEN_AWAY,)
    assert await applied(interlock_url, phases=("pre", "post")) is State.CURRENT
    assert (await status(interlock_url)).pending == ()


async def test_on_a_new_database_everything_is_applied_at_once(database_url: str, release: Release) -> None:
    release.brings(ADDED, TAKEN_AWAY)
    await applied(database_url)
    assert (await status(database_url)).pending == ()


async def test_a_migration_that_fails_leaves_no_trace(interlock_url: str, release: Release) -> None:
    before = schema_of(interlock_url)
    release.brings(Migration(MigrationScript(9001, "pre"), "broken", ADDED.sql + "SELECT 1 / 0;"))
    with pytest.raises(errors.StatementFailed, match="division by zero"):
        await applied(interlock_url)
    assert schema_of(interlock_url) == before
    assert recorded(interlock_url) == all_recorded()


async def test_a_migration_gives_way_to_users_of_the_table_and_succeeds_after_them(
    interlock_url: str, release: Release, caplog: pytest.LogCaptureFixture
) -> None:
    release.brings(ADDED)
    caplog.set_level("INFO", "interlock")
    with psycopg.connect(interlock_url) as blocker:
        blocker.execute("SELECT count(*) FROM interlock.gate_run")
        async with asyncio.TaskGroup() as tasks:
            applying = tasks.create_task(applied(interlock_url))
            while sum(vars(record)["event"] == "schema.blocked" for record in caplog.records) < 3:
                await asyncio.to_thread(read_without_waiting_long, interlock_url)
            assert not applying.done()
            blocker.commit()
    assert applying.result() is State.CURRENT
    assert execute(interlock_url, "SELECT count(added) FROM interlock.gate_run") == [(0,)]


def read_without_waiting_long(url: str) -> None:
    execute(url, "SET statement_timeout = '30s'; SELECT count(*) FROM interlock.gate_run")


async def test_a_migration_that_is_always_in_the_way_gives_up_and_says_why(
    interlock_url: str, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    release.brings(ADDED)
    monkeypatch.setattr(import_module("interlock.schema.apply"), "_ATTEMPTS", 2)
    with psycopg.connect(interlock_url) as blocker:
        blocker.execute("SELECT count(*) FROM interlock.gate_run")
        with pytest.raises(errors.MigrationBlocked, match=r"9001 \(added\).* locked 2 times: end the long transaction"):
            await applied(interlock_url)
    assert recorded(interlock_url) == all_recorded()
