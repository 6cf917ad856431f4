"""URLs that name several servers: which one is taken, and what is said when none is. A standby says that it is one."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest

from interlock import errors
from interlock.coordination.engine.deferred import OrphanedGrant
from interlock.server.database import NamedDatabase
from interlock.stores.leases import Holder, RenewAnswer
from interlock.stores.postgres import Session, connect
from interlock.stores.postgres.leases import PostgresLeases
from interlock.stores.postgres.url import ServerAddress
from support.postgres import execute
from support.replication import Pair, primary_and_standby


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with primary_and_standby(synchronous=False) as pair:
        execute(pair.primary_url, "CREATE TABLE orders (number integer)")
        execute(pair.primary_url, "CREATE UNLOGGED TABLE waiter (number integer)")
        pair.wait_caught_up()
        yield pair


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address where no server listens and none can start to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def silent() -> Iterator[str]:
    """An address that swallows everything, as the one of a dead machine does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def address(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def at(url: str, *servers: str, wanted: str | None = None) -> str:
    """The same role and database on other servers."""
    parts = urlsplit(url)
    role = parts.netloc.rpartition("@")[0]
    query = f"target_session_attrs={wanted}" if wanted else ""
    return urlunsplit(parts._replace(netloc=f"{role}@{','.join(servers)}", query=query))


async def port_of(url: str, *, timeout: float = 10) -> str:
    async with await connect(url, application_name="test", timeout=timeout) as session:
        return f"127.0.0.1:{await session.fetchval('SHOW port')}"


async def test_the_control_plane_goes_to_the_primary(pair: Pair) -> None:
    primary, standby = address(pair.primary_url), address(pair.standby_url)
    named = await NamedDatabase(at(pair.primary_url, standby, primary)).bring_up()
    assert await port_of(named) == primary


@pytest.mark.parametrize("wanted", ["read-write", "primary"])
async def test_the_primary_is_found_wherever_it_stands(pair: Pair, wanted: str) -> None:
    primary, standby = address(pair.primary_url), address(pair.standby_url)
    for servers in ([primary, standby], [standby, primary]):
        assert await port_of(at(pair.primary_url, *servers, wanted=wanted)) == primary


@pytest.mark.parametrize("wanted", ["standby", "read-only", "prefer-standby"])
async def test_so_is_a_standby_if_that_is_asked_for(pair: Pair, wanted: str) -> None:
    primary, standby = address(pair.primary_url), address(pair.standby_url)
    assert await port_of(at(pair.primary_url, primary, standby, wanted=wanted)) == standby


async def test_prefer_standby_takes_any_server(pair: Pair, nowhere: str) -> None:
    primary = address(pair.primary_url)
    assert await port_of(at(pair.primary_url, nowhere, primary, wanted="prefer-standby")) == primary


async def test_without_a_wish_the_first_that_answers_is_taken(pair: Pair, nowhere: str) -> None:
    primary, standby = address(pair.primary_url), address(pair.standby_url)
    assert await port_of(at(pair.primary_url, nowhere, standby, primary)) == standby


async def test_servers_may_stand_in_parameters(pair: Pair) -> None:
    parts = urlsplit(pair.url)
    hosts, ports = zip(*(server.split(":") for server in address(pair.url).split(",")), strict=True)
    query = f"host={','.join(reversed(hosts))}&port={','.join(reversed(ports))}&{parts.query}"
    url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[0] + "@", query=query))
    assert await port_of(url) == address(pair.primary_url)


async def test_a_server_that_swallows_everything_leaves_time_for_the_next(pair: Pair, silent: str) -> None:
    primary = address(pair.primary_url)
    assert await port_of(at(pair.primary_url, silent, primary, wanted="read-write"), timeout=4) == primary


@pytest.mark.exhaustive
async def test_later_sessions_begin_with_the_server_that_accepted_the_last(
    pair: Pair, silent: str, nowhere: str
) -> None:
    servers: list[ServerAddress] = []
    url = at(pair.primary_url, silent, nowhere, address(pair.primary_url), wanted="read-write")
    for _ in range(2):
        async with await connect(url, application_name="test", timeout=6, servers=servers):
            assert [str(server) for server in servers] == [address(pair.primary_url), silent, nowhere]


@pytest.mark.parametrize("wanted", [None, "any"])
async def test_but_not_with_one_that_may_be_a_standby(pair: Pair, nowhere: str, wanted: str | None) -> None:
    """When the first server is back, it is the one that is wanted."""
    servers: list[ServerAddress] = []
    url = at(pair.primary_url, nowhere, address(pair.standby_url), wanted=wanted)
    async with await connect(url, application_name="test", servers=servers):
        assert [str(server) for server in servers] == [nowhere, address(pair.standby_url)]


async def test_a_renewal_in_little_time_gets_past_a_server_that_swallows_everything(
    interlock_url: str, silent: str
) -> None:
    """A renewal has a shorter timeout than an acquire, and began with the same server again."""
    url = at(interlock_url, silent, address(interlock_url), wanted="read-write")
    store = PostgresLeases(url, schema="interlock", holder=Holder("a test", "here", 1), timeout=10)
    try:
        answer = await renewed(store, OrphanedGrant("feeds", 1, uuid4(), 30.0), times=5)
        assert list(answer.lost) == [0]
    finally:
        await store.close()


async def renewed(store: PostgresLeases, grant: OrphanedGrant, *, times: int) -> RenewAnswer:
    """Repeated so many times, because the machine may be slow."""
    while True:
        try:
            return await store.renew([grant], timeout=3)
        except errors.DatabaseUnreachable:
            times -= 1
            if not times:
                raise


async def test_an_error_names_every_unreachable_server(pair: Pair, nowhere: str) -> None:
    with ExitStack() as stack:
        other = stack.enter_context(socket.socket())
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        with pytest.raises(errors.DatabaseUnreachable, match="No database answers at") as refusal:
            await connect(at(pair.primary_url, nowhere, f"127.0.0.1:{port}"), application_name="test")
    said = str(refusal.value)
    assert said.count(str(port)) == said.count(nowhere.partition(":")[2]) == 2
    assert str(urlsplit(pair.primary_url).password) not in said


async def test_where_no_primary_answers_that_is_said(pair: Pair, nowhere: str) -> None:
    servers = at(pair.primary_url, nowhere, address(pair.standby_url), wanted="read-write")
    with pytest.raises(errors.NotPrimary, match=r"takes writes \(.*target_session_attrs.*\): name the primary too"):
        await connect(servers, application_name="test")


async def test_where_no_standby_answers_that_is_said(pair: Pair) -> None:
    only = at(pair.primary_url, address(pair.primary_url), wanted="standby")
    with pytest.raises(errors.DatabaseUnreachable, match="is standby, as target_session_attrs requires"):
        await connect(only, application_name="test")


async def test_a_password_that_one_refuses_is_not_offered_to_the_next(pair: Pair) -> None:
    wrong = pair.url.replace(str(urlsplit(pair.primary_url).password), "wrong")
    with pytest.raises(errors.AccessDenied):
        await connect(wrong, application_name="test")


REFUSED_BY_A_STANDBY = {
    "a write": "INSERT INTO orders VALUES (1)",
    "a lock on rows": "SELECT FROM orders FOR UPDATE",
    "a table that is not logged": "SELECT FROM waiter",
    "the position in the log": "SELECT pg_current_wal_insert_lsn()",
    "a notification": "LISTEN anything",
}


@pytest.mark.parametrize("what", REFUSED_BY_A_STANDBY)
async def test_a_standbys_refusal_says_how_to_reach_the_primary(pair: Pair, what: str) -> None:
    async with await connect(pair.standby_url, application_name="test") as session:
        with pytest.raises(errors.NotPrimary, match=r"takes no writes \(.*target_session_attrs=read-write\.$"):
            await session.execute(REFUSED_BY_A_STANDBY[what])
        assert await session.fetchval("SELECT 1") == 1


async def test_a_standby_that_speaks_another_language_is_understood(pair: Pair) -> None:
    """The error's class must not depend on its text: here the text does not mention recovery."""
    async with await connect(pair.standby_url, application_name="test") as session:
        with pytest.raises(errors.NotPrimary):
            await raised(session, "55000")
        with pytest.raises(errors.StatementFailed) as refusal:
            await raised(session, "40001")
        assert refusal.value.sqlstate == "40001"


@pytest.mark.parametrize("code", ["55000", "0A000", "40001", "40P01", "IL001"])
async def test_on_a_primary_the_same_codes_are_refusals_with_their_code(pair: Pair, code: str) -> None:
    async with await connect(pair.primary_url, application_name="test") as session:
        with pytest.raises(errors.StatementFailed) as refusal:
            await raised(session, code)
        assert refusal.value.sqlstate == code


async def raised(session: Session, code: str) -> None:
    await session.execute(f"DO $$ BEGIN RAISE EXCEPTION 'non licet' USING ERRCODE = '{code}'; END $$")


async def test_a_read_only_session_gets_the_same_error(pair: Pair) -> None:
    async with await connect(pair.primary_url, application_name="test") as session:
        await session.execute("SET default_transaction_read_only = on")
        with pytest.raises(errors.NotPrimary, match="takes no writes"):
            await session.execute("INSERT INTO orders VALUES (1)")
