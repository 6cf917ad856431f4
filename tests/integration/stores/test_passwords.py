"""Passwords that a function gives, because they change: asked for at each connect, and never shown."""

import asyncio
import logging
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator
from urllib.parse import urlsplit, urlunsplit

import pytest

from interlock import errors
from interlock.stores.postgres import connect
from support.postgres import execute

ROLE = "web_of_passwords"
SECRET = "geheim"


@pytest.fixture(scope="module")
def bare_url(server_url: str) -> Iterator[str]:
    """A URL without a password, of a role that needs one."""
    execute(server_url, f"CREATE ROLE {ROLE} LOGIN PASSWORD '{SECRET}'")
    parts = urlsplit(server_url)
    yield urlunsplit(parts._replace(netloc=f"{ROLE}@{parts.hostname}:{parts.port}"))
    execute(server_url, f"DROP ROLE {ROLE}")


async def in_a_coroutine() -> str:
    await asyncio.sleep(0)
    return SECRET


class Vault:
    async def __call__(self) -> str:
        return SECRET


GIVERS: dict[str, Callable[[], str | Awaitable[str]]] = {
    "function": lambda: SECRET,
    "coroutine function": in_a_coroutine,
    "function that gives an awaitable": lambda: in_a_coroutine(),
    "object with an asynchronous call": Vault(),
}


@pytest.mark.parametrize("giver", GIVERS)
async def test_a_function_gives_the_password(bare_url: str, giver: str) -> None:
    async with await connect(bare_url, application_name="test", password=GIVERS[giver]) as session:
        assert await session.fetchval("SELECT current_user") == ROLE


async def test_it_is_asked_for_each_session_because_it_changes(server_url: str, bare_url: str) -> None:
    given = iter([SECRET, "neu"])
    async with await connect(bare_url, application_name="test", password=lambda: next(given)):
        execute(server_url, f"ALTER ROLE {ROLE} PASSWORD 'neu'")
        try:
            async with await connect(bare_url, application_name="test", password=lambda: next(given)) as second:
                assert await second.fetchval("SELECT 1") == 1
        finally:
            execute(server_url, f"ALTER ROLE {ROLE} PASSWORD '{SECRET}'")
    assert next(given, None) is None


async def test_it_beats_the_urls(bare_url: str) -> None:
    stale = bare_url.replace(f"{ROLE}@", f"{ROLE}:stale@")
    async with await connect(stale, application_name="test", password=lambda: SECRET) as session:
        assert await session.fetchval("SELECT 1") == 1


async def test_a_function_that_blocks_does_not_hold_up_the_loop(bare_url: str) -> None:
    loop_goes_on = threading.Event()

    def slow() -> str:
        assert loop_goes_on.wait(20)
        return SECRET

    connecting = asyncio.create_task(connect(bare_url, application_name="test", password=slow))
    await asyncio.sleep(0)
    loop_goes_on.set()
    await (await connecting).close()


async def test_a_wrong_one_is_refused_and_not_shown(bare_url: str) -> None:
    with pytest.raises(errors.AccessDenied, match="password authentication failed") as refusal:
        await connect(bare_url, application_name="test", password=lambda: SECRET.upper())
    assert SECRET.upper() not in "".join(traceback.format_exception(refusal.value))


def broken() -> str:
    raise LookupError(f"the vault said {SECRET}")


async def broken_later() -> str:
    raise LookupError(f"the vault said {SECRET}")


@pytest.mark.parametrize("giver", [broken, broken_later])
async def test_a_failing_password_function_is_reported_without_its_message(
    bare_url: str, giver: Callable[[], str | Awaitable[str]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(
        errors.AccessDenied, match=r"no password .* raised LookupError: correct the function\.$"
    ) as refusal:
        await connect(bare_url, application_name="test", password=giver)
    assert isinstance(refusal.value.__cause__, LookupError)
    assert SECRET not in str(refusal.value) + caplog.text


async def test_a_function_that_never_answers_is_not_waited_for_longer_than_the_server(bare_url: str) -> None:
    with pytest.raises(errors.AccessDenied, match="TimeoutError"):
        await connect(bare_url, application_name="test", timeout=0.05, password=asyncio.Event().wait)  # type: ignore[arg-type]


async def test_a_password_that_is_not_text_is_a_configuration_error(bare_url: str) -> None:
    with pytest.raises(
        errors.ConfigurationError, match="returned bytes: the function has to return a string"
    ) as refusal:
        await connect(bare_url, application_name="test", password=lambda: SECRET.encode())  # type: ignore[arg-type, return-value]
    assert SECRET not in str(refusal.value)
