"""Connections that cannot carry a guard: each error says what to do."""

import subprocess
import sys
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.pool import NullPool

from interlock.coordination.guards import guard, guard_sync
from interlock.errors import GuardRefused, LeaseLost, PermissionMissing
from interlock.schema import grant_sql, whole_schema
from support.django_databases import django_databases
from support.leases import Grant, granted
from support.postgres import execute
from support.user_connections import KINDS, VARIANTS, Kind

each = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@pytest.fixture
def grant(interlock_url: str) -> Grant:
    return granted(interlock_url)


@pytest.mark.exhaustive(beyond=2)
@each
async def test_a_connection_to_a_database_without_interlock(kind: Kind, grant: Grant, database_url: str) -> None:
    async with kind(database_url) as carrier:
        with pytest.raises(GuardRefused, match="only in the database that keeps the lease"):
            async with carrier.transaction():
                await carrier.guard(grant)


async def test_a_connection_to_a_database_with_an_interlock_of_its_own(grant: Grant, database_url: str) -> None:
    execute(database_url, whole_schema("interlock"))
    with psycopg.connect(database_url) as connection, pytest.raises(LeaseLost, match="another database"):
        guard_sync(grant, connection)


@pytest.fixture
def other_role_url(interlock_url: str) -> str:
    parts = urlsplit(interlock_url)
    role = f"stranger_{parts.path.lstrip('/')}"
    execute(interlock_url, f"CREATE ROLE {role} LOGIN PASSWORD 'geheim'")
    return urlunsplit(parts._replace(netloc=f"{role}:geheim@{parts.hostname}:{parts.port}"))


@pytest.mark.exhaustive(beyond=2)
@each
async def test_a_role_that_was_granted_nothing(kind: Kind, grant: Grant, other_role_url: str) -> None:
    async with kind(other_role_url) as carrier:
        with pytest.raises(PermissionMissing, match="schema grant ROLE --for leases"):
            async with carrier.transaction():
                await carrier.guard(grant)


async def test_a_role_that_may_use_leases_may_guard_them(grant: Grant, interlock_url: str, other_role_url: str) -> None:
    role = urlsplit(other_role_url).username
    assert role
    execute(interlock_url, grant_sql(role, "interlock", ["leases"]))
    with psycopg.connect(other_role_url) as connection:
        guard_sync(grant, connection)


@pytest.mark.exhaustive(beyond=4)
@pytest.mark.parametrize("kind", [*KINDS.values(), *VARIANTS.values()], ids=KINDS | VARIANTS)
async def test_a_sync_connection_in_async_code_and_an_async_connection_in_sync_code(
    kind: Kind, grant: Grant, interlock_url: str
) -> None:
    async with kind(interlock_url) as carrier:
        if carrier.is_async:
            with pytest.raises(GuardRefused, match="needs an event loop"):
                guard_sync(grant, carrier.connection)
        else:
            with pytest.raises(GuardRefused, match=r"would block the event loop|pass the async connection"):
                await guard(grant, carrier.connection)


@pytest.mark.parametrize("thing", [object(), 5, b"a URL", sqlalchemy.create_engine("sqlite://"), asyncpg])
async def test_an_object_that_is_no_connection(grant: Grant, thing: object) -> None:
    with pytest.raises(GuardRefused, match=r"not a connection that Interlock knows.*guard_v1 in SQL"):
        guard_sync(grant, thing)
    with pytest.raises(GuardRefused, match="not a connection that Interlock knows"):
        await guard(grant, thing)


def test_an_alias_without_django(grant: Grant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "django.db", raising=False)
    with pytest.raises(GuardRefused, match="Django is not in use"):
        guard_sync(grant, "default")
    with pytest.raises(GuardRefused, match="Django is not in use"):
        guard_sync(grant)


def test_another_kind_of_database(grant: Grant, interlock_url: str) -> None:
    lite = sqlalchemy.create_engine("sqlite://", poolclass=NullPool).connect()
    with lite, pytest.raises(GuardRefused, match="is to sqlite"):
        guard_sync(grant, lite)
    with django_databases(interlock_url) as django:
        django.connections.settings["default"]["ENGINE"] = "django.db.backends.sqlite3"
        with pytest.raises(GuardRefused, match="'default' is sqlite"):
            guard_sync(grant, "default")


def test_sqlalchemys_autocommit_as_an_option_of_one_connection(grant: Grant, interlock_url: str) -> None:
    url = interlock_url.replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(url, poolclass=NullPool)
    connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    with connection, connection.begin(), pytest.raises(GuardRefused, match="AUTOCOMMIT"):
        guard_sync(grant, connection)


def test_a_closed_connection_raises_its_own_error(grant: Grant, interlock_url: str) -> None:
    for autocommit in (False, True):
        connection = psycopg.connect(interlock_url, autocommit=autocommit)
        connection.close()
        with pytest.raises(psycopg.OperationalError, match="closed"):
            guard_sync(grant, connection)


def test_no_driver_is_imported_to_recognize_a_connection() -> None:
    """Interlock itself imports asyncpg."""
    code = (
        "import sys, interlock.coordination.guards\n"
        "print({'psycopg', 'sqlalchemy', 'django'} & {name.partition('.')[0] for name in sys.modules})"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout == "set()\n"
