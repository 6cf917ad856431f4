"""Settings that cannot work are refused as early as possible, with a message that says what to do."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from interlock import AsyncInterlock, Interlock, errors, schema
from interlock.errors import ConfigurationError
from support.lease_engine import sessions, until
from support.postgres import execute
from support.replication import Pair, primary_and_standby

NOWHERE = "postgresql://nobody@nowhere.invalid/none"


@pytest.fixture(params=[AsyncInterlock, Interlock])
def root(request: pytest.FixtureRequest) -> Callable[..., AsyncInterlock | Interlock]:
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "name",
    ["", "a\nb", "a\x00b", "\x7f", "a\u2028b", "x" * 256, "ä" * 128, "\ud800", b"feeds", None, 7],
)
def test_names(root: Callable[..., AsyncInterlock | Interlock], name: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"name|Name"):
        root(NOWHERE).lease(name)


@pytest.mark.parametrize("name", ["x", "x" * 255, "ä" * 127, "shop:42/résumé #1 ☃", " feeds "])
async def test_names_that_are_allowed(locks: AsyncInterlock, interlock_url: str, name: str) -> None:
    async with locks.lease(name) as grant:
        assert execute(interlock_url, "SELECT name, token FROM interlock.lease") == [(name, grant.token)]


@pytest.mark.parametrize("ttl", [0, -1, 0.49, 86401, math.inf, math.nan, timedelta(0), timedelta(days=2)])
def test_times_to_live(root: Callable[..., AsyncInterlock | Interlock], ttl: float | timedelta) -> None:
    with pytest.raises(ConfigurationError, match=r"ttl of .* cannot work: use 0.5 s to 86400 s"):
        root(NOWHERE).lease("feeds", ttl=ttl)


@pytest.mark.parametrize("ttl", ["30", None, object()])
def test_a_ttl_that_is_no_duration_is_refused(root: Callable[..., AsyncInterlock | Interlock], ttl: Any) -> None:
    with pytest.raises(ConfigurationError, match="is not a length of time: use a number of seconds, or a timedelta"):
        root(NOWHERE).lease("feeds", ttl=ttl)


@pytest.mark.parametrize(
    ("ttl", "renew_every", "request_timeout"),
    [(10, 4, None), (10, 0, None), (10, -1, None), (10, math.nan, None), (10, None, 5), (1, None, 0.5)],
)
def test_times_that_do_not_work_together(
    root: Callable[..., AsyncInterlock | Interlock],
    ttl: float,
    renew_every: float | None,
    request_timeout: float | None,
) -> None:
    with pytest.raises(ConfigurationError, match=r"renew_every|request_timeout"):
        root(NOWHERE, request_timeout=request_timeout).lease("feeds", ttl=ttl, renew_every=renew_every)


@pytest.mark.parametrize("timeout", [-1, -0.001, math.nan, timedelta(seconds=-1)])
async def test_impossible_timeouts(locks: AsyncInterlock, timeout: float | timedelta) -> None:
    with pytest.raises(ConfigurationError, match=r"timeout of .* cannot work"):
        locks.lease("feeds").acquire(timeout)
    with pytest.raises(ConfigurationError):
        Interlock(NOWHERE).lease("feeds").acquire(timeout)


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        ({"at": object()}, "JSON"),
        ({"rate": math.nan}, "JSON"),
        ({"rate": math.inf}, "JSON"),
        ({"text": "a\x00b"}, "NUL"),
        ({"text": "x" * 4096}, "bytes"),
        ({"text": "ä" * 2048}, "bytes"),
        ({"\ud800": 1}, "JSON"),
    ],
)
def test_metadata(root: Callable[..., AsyncInterlock | Interlock], metadata: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        root(NOWHERE).lease("feeds", metadata=metadata)


@pytest.mark.parametrize("metadata", [{}, {"text": "\\u0000"}, {"text": "x" * 4000}, {"n": {"a": [None, True, 1.5]}}])
async def test_metadata_that_is_allowed(locks: AsyncInterlock, interlock_url: str, metadata: Any) -> None:
    await locks.lease("feeds", metadata=metadata).acquire()
    assert execute(interlock_url, "SELECT metadata FROM interlock.leases_v1('feeds')") == [(metadata,)]


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "mysql://localhost/shop"},
        {"url": "redis://localhost"},
        {"url": ""},
        {"url": "localhost"},
        {"schema": ""},
        {"schema": "x" * 64},
        {"pooler": "session"},
        {"pooler": None},
        {"idle_after": 0},
        {"idle_after": -1},
        {"idle_after": math.nan},
        {"request_timeout": 0},
        {"request_timeout": -1},
        {"request_timeout": math.nan},
        {"request_timeout": math.inf},
        {"on_event": "print"},
        {"on_event": asyncio.sleep},
        {"password": "geheim"},
        {"replica": ""},
        {"replica": "one\x00options\x00-c is_superuser=on"},
        {"idle_after": "60"},
    ],
)
def test_the_root_object(root: Callable[..., AsyncInterlock | Interlock], settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        root(**({"url": NOWHERE} | settings))
    assert "geheim" not in str(refusal.value)


def test_a_url_from_the_environment(interlock_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_DATABASE_URL", interlock_url)
    with Interlock() as locks, locks.lease("feeds"):
        pass
    monkeypatch.delenv("INTERLOCK_DATABASE_URL")
    with pytest.raises(ConfigurationError, match="INTERLOCK_DATABASE_URL"), Interlock():
        pass


async def test_another_schema(database_url: str) -> None:
    execute(database_url, schema.whole_schema("my_locks"))
    async with AsyncInterlock(database_url, schema="my_locks") as locks, locks.lease("feeds") as grant:
        assert grant.schema == "my_locks"
        assert execute(database_url, "SELECT token FROM my_locks.lease") == [(grant.token,)]


def calls(locks: AsyncInterlock, opened: bool) -> list[Callable[[], Awaitable[object]]]:
    """The calls that must raise the error: `open`, or without it each later call."""
    lease = locks.lease("feeds")
    return [locks.open, lease.try_acquire, lease.acquire] if opened else [lease.try_acquire, lease.acquire]


@pytest.mark.parametrize("opened", [True, False])
async def test_a_database_without_the_schema(database_url: str, opened: bool) -> None:
    locks = AsyncInterlock(database_url)
    for ask in calls(locks, opened):
        with pytest.raises(errors.SchemaMissing, match="interlock schema apply"):
            await ask()
    await locks.close()


async def test_a_schema_from_before_there_were_leases(database_url: str) -> None:
    execute(database_url, "CREATE SCHEMA interlock")
    execute(database_url, "CREATE TABLE interlock.migration (LIKE pg_class)")
    locks = AsyncInterlock(database_url)
    with pytest.raises(errors.SchemaError):
        await locks.lease("feeds").acquire()
    await locks.close()


@pytest.fixture
def role_url(interlock_url: str) -> Iterator[str]:
    """The URL of a role that may log in, and nothing else."""
    role = f"role_of_{urlsplit(interlock_url).path.lstrip('/')}"
    execute(interlock_url, f"CREATE ROLE {role} LOGIN PASSWORD 'geheim'")
    parts = urlsplit(interlock_url)
    yield urlunsplit(parts._replace(netloc=f"{role}:geheim@{parts.hostname}:{parts.port}"))
    execute(interlock_url, f"DROP OWNED BY {role}")
    execute(interlock_url, f"DROP ROLE {role}")


async def test_a_role_without_privileges(role_url: str) -> None:
    locks = AsyncInterlock(role_url)
    for ask in (locks.lease("feeds").try_acquire, locks.lease("feeds").acquire):
        with pytest.raises(errors.PermissionMissing, match="interlock schema grant ROLE") as refusal:
            await ask()
        assert "geheim" not in str(refusal.value)
    await locks.close()


async def test_a_role_that_may_use_leases(role_url: str, interlock_url: str) -> None:
    execute(interlock_url, schema.grant_sql(urlsplit(role_url).username or "", "interlock"))
    async with AsyncInterlock(role_url) as locks, locks.lease("feeds") as grant:
        assert await grant.hand_over() is False
        with pytest.raises(errors.LeaseTimeout):
            await asyncio.create_task(waited(locks))


async def waited(locks: AsyncInterlock) -> None:
    await locks.lease("feeds").acquire(0.3)


async def test_no_server_answers() -> None:
    locks = AsyncInterlock("postgresql://nobody@127.0.0.1:1/none")
    for ask in (locks.lease("feeds").try_acquire, locks.lease("feeds").acquire, locks.open):
        with pytest.raises(errors.DatabaseUnreachable, match=r"127\.0\.0\.1:1"):
            await ask()
    await locks.close()


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with primary_and_standby(synchronous=False) as pair:
        execute(pair.primary_url, schema.whole_schema("interlock"))
        pair.wait_caught_up()
        yield pair


@pytest.mark.parametrize("opened", [True, False])
async def test_a_standby(pair: Pair, opened: bool) -> None:
    locks = AsyncInterlock(pair.standby_url)
    for ask in calls(locks, opened):
        with pytest.raises(errors.NotPrimary, match="primary"):
            await ask()
    await locks.close()
    await until(lambda: sessions(pair.standby_url) == {})
