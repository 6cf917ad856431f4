"""The engine is replaced when the password or the primary may have changed."""

import asyncio
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit, urlunsplit

import pytest

from interlock import AsyncDurable, Attempt, Durable, Orchestrations, Run, errors
from interlock.durable import engine_renewal, replica
from interlock.schema import grant_sql, whole_schema
from support.postgres import execute
from support.replication import primary_and_standby
from support.waiting import eventually

ROLE = "web_of_orchestrations"
FIRST, SECOND = "erst/es:@ %", "zweites"
WITHIN = 50.0

work = Orchestrations("renewed")
go_on: asyncio.Event
begun: asyncio.Event


@work.activity()
async def double(attempt: Attempt, number: int) -> int:
    return 2 * number


@work.activity()
async def wait_for_the_test(attempt: Attempt, number: int) -> int:
    begun.set()
    await go_on.wait()
    return attempt.number


@work.orchestration()
async def doubled(run: Run, number: int) -> int:
    return await run.call(double, number)


@work.orchestration()
async def waited_for(run: Run, number: int) -> int:
    return await run.call(wait_for_the_test, number)


@work.orchestration()
async def told(run: Run, number: int) -> int:
    return await run.call(double, await run.event("number", int))


@pytest.fixture(autouse=True)
def signals() -> None:
    global begun, go_on
    begun, go_on = asyncio.Event(), asyncio.Event()


@pytest.fixture
def bare_url(interlock_url: str, server_url: str) -> Iterator[str]:
    """A URL without a password, of a role that needs one."""
    database = urlsplit(interlock_url).path[1:]
    execute(server_url, f"CREATE ROLE {ROLE} LOGIN PASSWORD '{FIRST}'")
    execute(server_url, f'GRANT CREATE ON DATABASE "{database}" TO {ROLE}')
    execute(interlock_url, grant_sql(ROLE, "interlock", ["leases", "orchestrations"]))
    parts = urlsplit(interlock_url)
    try:
        yield urlunsplit(parts._replace(netloc=f"{ROLE}@{parts.hostname}:{parts.port}"))
    finally:
        hang_up(interlock_url)
        execute(interlock_url, f"DROP OWNED BY {ROLE} CASCADE")
        execute(server_url, f"DROP OWNED BY {ROLE} CASCADE")
        execute(server_url, f"DROP ROLE {ROLE}")


def hang_up(url: str) -> None:
    """End every connection of the role, as a restart of the server does."""
    execute(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", ROLE)


def of_the_engine(url: str) -> set[int]:
    """The server processes of connections that are not Interlock's own."""
    rows = execute(
        url,
        "SELECT pid FROM pg_stat_activity WHERE usename = %s AND NOT starts_with(application_name, 'interlock')",
        ROLE,
    )
    return {pid for (pid,) in rows}


async def test_a_function_gives_the_password_also_to_the_engine(bare_url: str) -> None:
    with pytest.raises(errors.AccessDenied):
        async with AsyncDurable(work, url=bare_url):
            pass
    async with AsyncDurable(work, url=bare_url, password=lambda: FIRST) as durable:
        assert await (await durable.start(doubled, "one", 21)).wait(WITHIN) == 42


def test_so_it_does_without_an_event_loop(bare_url: str) -> None:
    async def asked() -> str:
        return FIRST

    with Durable(work, url=bare_url, password=asked) as durable:
        assert durable.start(doubled, "one", 21).wait(WITHIN) == 42


def test_a_password_that_is_no_function_is_refused() -> None:
    with pytest.raises(errors.ConfigurationError, match="has to be a function"):
        AsyncDurable(work, password="fixed")  # type: ignore[arg-type]


async def test_when_the_password_was_changed_and_connections_ended_the_work_goes_on(
    bare_url: str, interlock_url: str
) -> None:
    valid = [FIRST]
    async with AsyncDurable(work, url=bare_url, password=lambda: valid[0]) as durable:
        assert await (await durable.start(doubled, "before", 1)).wait(WITHIN) == 2
        handle = await durable.start(told, "through it", 0)
        execute(interlock_url, f"ALTER ROLE {ROLE} PASSWORD '{SECOND}'")
        valid[0] = SECOND
        hang_up(interlock_url)
        replaced = durable._engine
        await asyncio.to_thread(eventually, lambda: durable._engine is not replaced, within=WITHIN)
        await durable.send("through it", "number", 21)
        assert await handle.wait(WITHIN) == 42


async def test_an_engine_with_a_password_function_is_renewed_in_time(
    bare_url: str, interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new engine uses the new password. The old one finishes its work, and its connections are closed."""
    monkeypatch.setattr(engine_renewal, "_CHECK_EVERY", 0.1)
    asked: list[str] = []

    def ask() -> str:
        asked.append(FIRST)
        return FIRST

    async with AsyncDurable(work, url=bare_url, password=ask) as durable:
        assert durable._engines._lifetime == replica._PASSWORD_LASTS
        handle = await durable.start(waited_for, "through it", 1)
        await asyncio.wait_for(begun.wait(), WITHIN)
        connections, seen = of_the_engine(interlock_url), len(asked)
        await grown_old(durable)
        asked_again = len(asked) > seen
        go_on.set()
        assert await handle.wait(WITHIN) == 1, "nothing was attempted twice"
        assert asked_again
        assert await (await durable.start(doubled, "after it", 1)).wait(WITHIN) == 2
        await asyncio.to_thread(eventually, lambda: not connections & of_the_engine(interlock_url), within=WITHIN)


async def grown_old(durable: AsyncDurable) -> None:
    """The engine has exceeded its lifetime, and is replaced once."""
    engines, number = durable._engines, id(durable._engine)
    engines._created_at -= replica._PASSWORD_LASTS
    await asyncio.to_thread(eventually, lambda: id(engines.current) != number, within=WITHIN)


async def test_without_a_function_and_with_whole_connections_nothing_is_replaced(
    interlock_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_renewal, "_CHECK_EVERY", 0.01)
    looks = count_looks(monkeypatch)
    async with AsyncDurable(work, url=interlock_url, concurrency=0) as durable:
        first = durable._engine
        await asyncio.to_thread(eventually, lambda: looks() > 5)
        assert durable._engine is first


async def test_a_failed_renewal_keeps_the_old_engine_and_is_repeated(
    interlock_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engine_renewal, "_CHECK_EVERY", 0.05)
    answers: list[Exception | None] = [None]

    def ask() -> str:
        if answers[0]:
            raise answers[0]
        return str(urlsplit(interlock_url).password)

    async with AsyncDurable(work, url=interlock_url, password=ask, concurrency=0) as durable:
        first = durable._engine
        answers[0] = OSError("the vault is closed")
        durable._engines._lifetime = 0.0
        await asyncio.to_thread(eventually, lambda: "orchestration.engine_kept" in caplog.text)
        assert durable._engine is first
        answers[0] = None
        await asyncio.to_thread(eventually, lambda: durable._engine is not first)
    assert "vault" not in caplog.text


def count_looks(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    looks = [0]
    outdated = engine_renewal.EngineRenewal._is_outdated

    def counted(self: engine_renewal.EngineRenewal) -> bool:
        looks[0] += 1
        return outdated(self)

    monkeypatch.setattr(engine_renewal.EngineRenewal, "_is_outdated", counted)
    return lambda: looks[0]


@pytest.mark.exhaustive
@pytest.mark.timeout(150)
async def test_after_a_change_of_the_primary_the_work_goes_on_without_a_restart() -> None:
    """The primary ends in good order, so the standby has all that was recorded, and a replica that names both goes on.

    The old engine's server is gone for good, so the renewal does not wait for it.
    """
    with primary_and_standby(synchronous=False) as pair:
        execute(pair.primary_url, whole_schema("interlock"))
        url = pair.url.partition("?")[0]  # without a word on which of them
        async with AsyncDurable(work, url=url) as durable:
            assert await (await durable.start(doubled, "before", 1)).wait(WITHIN) == 2
            open_one = await durable.start(told, "through it", 0)
            under_way = await durable.start(waited_for, "under way", 0)
            await asyncio.wait_for(begun.wait(), WITHIN)
            await asyncio.to_thread(pair.stop_primary, "fast")
            await asyncio.to_thread(pair.promote)
            replaced = durable._engine
            await asyncio.to_thread(eventually, lambda: durable._engine is not replaced, within=WITHIN)
            go_on.set()
            await durable.send("through it", "number", 21)
            assert await open_one.wait(WITHIN) == 42
            assert await under_way.wait(WITHIN) >= 1
            assert await (await durable.start(doubled, "after it", 2)).wait(WITHIN) == 4
