"""Errors for unreachable databases: the right type, a remedy, and never the password."""

import socket
from collections.abc import Iterator
from urllib.parse import quote, urlsplit, urlunsplit

import pytest

from interlock import errors
from interlock.stores.postgres import connect
from support.postgres import execute, on_database

ROLE = "web_of_connecting"
SECRET = "geheim"


@pytest.fixture(scope="module")
def web_url(server_url: str) -> Iterator[str]:
    """A role with a password, and a database that it may not connect to."""
    execute(server_url, f"CREATE ROLE {ROLE} LOGIN PASSWORD '{SECRET}'")
    execute(server_url, "CREATE DATABASE closed")
    execute(server_url, "REVOKE CONNECT ON DATABASE closed FROM PUBLIC")
    parts = urlsplit(server_url)
    yield urlunsplit(parts._replace(netloc=f"{ROLE}:{SECRET}@{parts.hostname}:{parts.port}"))
    execute(server_url, "DROP DATABASE closed")
    execute(server_url, f"DROP ROLE {ROLE}")


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port that is taken, and where no server listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


async def refused(url: str, kind: type[errors.InterlockError]) -> str:
    """The error's text, which is one line without the secret."""
    with pytest.raises(kind) as refusal:
        await connect(url, application_name="test", timeout=5)
    said = str(refusal.value)
    assert type(refusal.value) is kind
    assert SECRET not in said
    assert "\n" not in said
    return said


async def test_the_right_password_is_let_in(web_url: str) -> None:
    async with await connect(web_url, application_name="test") as session:
        assert await session.fetchval("SELECT current_user") == ROLE
        assert SECRET not in session.shown_url
    assert session.is_closed


async def test_a_wrong_password_is_refused(web_url: str) -> None:
    said = await refused(web_url.replace(SECRET, f"{SECRET}-not"), errors.AccessDenied)
    assert f'password authentication failed for user "{ROLE}"' in said
    assert "check the URL's user, password and database" in said


async def test_no_password_is_refused(web_url: str) -> None:
    await refused(web_url.replace(f":{SECRET}", ""), errors.AccessDenied)


async def test_a_database_that_does_not_exist_is_refused(web_url: str) -> None:
    assert 'database "nowhere" does not exist' in await refused(on_database(web_url, "nowhere"), errors.AccessDenied)


async def test_a_database_that_is_closed_to_the_role_is_refused(web_url: str) -> None:
    assert "permission denied for database" in await refused(on_database(web_url, "closed"), errors.AccessDenied)


async def test_a_port_without_a_server_is_unreachable(free_port: int) -> None:
    said = await refused(f"postgresql://web:{SECRET}@127.0.0.1:{free_port}/shop", errors.DatabaseUnreachable)
    assert said.startswith(f"No database answers at postgresql://web@127.0.0.1:{free_port}/shop (")
    assert said.endswith("check the address, and check that the server runs.")


async def test_the_wait_for_a_silent_server_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://web:{SECRET}@127.0.0.1:{silent.getsockname()[1]}/shop"
        with pytest.raises(errors.DatabaseUnreachable, match="No database answers"):
            await connect(url, application_name="test", timeout=0.1)


async def test_a_host_that_does_not_exist_is_not_reached() -> None:
    said = await refused(f"postgresql://web:{SECRET}@no-such-host.invalid/shop", errors.DatabaseUnreachable)
    assert "no-such-host.invalid" in said


async def test_a_socket_that_does_not_exist_is_not_reached() -> None:
    directory = quote("/tmp/no-such-directory", safe="")
    said = await refused(f"postgresql://web:{SECRET}@{directory}/shop", errors.DatabaseUnreachable)
    assert directory in said


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://web:{SECRET}@db/shop",
        f"web:{SECRET}@db/shop",
        f"postgresql://web:{SECRET}/more@db/shop",
        f"postgresql://web:12/{SECRET}@db/shop",
        f"postgresql://web:{SECRET}@db/shop?sslmode=perhaps",
        f"postgresql://web:{SECRET}@{'label' * 13}.example/shop",
        f"postgresql://web:{SECRET}@one:1,two:{SECRET}/shop",
        f"postgresql://web:{SECRET}@one,two/shop?target_session_attrs={SECRET}",
        f"postgresql://web@one/shop?password=x&{SECRET}",
    ],
)
async def test_an_impossible_url_is_a_configuration_error(url: str) -> None:
    assert "database URL" in await refused(url, errors.ConfigurationError)


async def test_a_server_that_is_too_old_is_refused(web_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.stores.postgres.connection._OLDEST_SERVER", 99)
    assert "Interlock needs PostgreSQL 99 or newer" in await refused(web_url, errors.UnsupportedServer)


async def test_an_application_name_that_is_too_long_is_cut(web_url: str) -> None:
    async with await connect(web_url, application_name="a" * 100) as session:
        assert await session.fetchval("SHOW application_name") == "a" * 63
