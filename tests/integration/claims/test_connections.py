"""Claims in transactions of every kind of connection: the results are the same."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from interlock import AsyncInterlock, Interlock, errors
from interlock.coordination.claims import AsyncClaims, Claimed, Claims, Pending, Released, Taken
from interlock.schema import grant_sql
from support.name_locks import transaction
from support.postgres import execute
from support.user_connections import KINDS, VARIANTS, Kind, UserConnection

every_kind = pytest.mark.parametrize("kind", KINDS, indirect=True)
every_kind_and_variant = pytest.mark.parametrize("kind", KINDS | VARIANTS, indirect=True)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> Kind:
    return (KINDS | VARIANTS)[request.param]


@pytest.fixture
async def carrier(kind: Kind, interlock_url: str) -> AsyncIterator[UserConnection]:
    async with kind(interlock_url) as carrier:
        yield carrier


class Names:
    """One interface for sync and async connections."""

    def __init__(self, url: str, carrier: UserConnection) -> None:
        self._carrier = carrier
        self._claims: Claims | AsyncClaims = (
            AsyncInterlock(url).claims("dns") if carrier.is_async else Interlock(url).claims("dns")
        )

    async def __call__(self, method: str, *args: object, **options: object) -> object:
        result = getattr(self._claims, method)(self._carrier.connection, *args, **options)
        return await result if self._carrier.is_async else result


@pytest.mark.exhaustive(beyond=10)
@every_kind_and_variant
async def test_a_claim_is_part_of_the_transaction(carrier: UserConnection, interlock_url: str) -> None:
    names = Names(interlock_url, carrier)
    other = Interlock(interlock_url).claims("dns")
    async with carrier.transaction():
        first = await names("claim", "100% :mydb", "A")
        assert isinstance(first, Claimed)
        with transaction(interlock_url) as connection:
            assert isinstance(other.claim(connection, "100% :mydb", "B"), Pending)
    with transaction(interlock_url) as connection:
        assert other.claim(connection, "100% :mydb", "B") == Taken("dns", "100% :mydb", "A", first.since)


@pytest.mark.exhaustive(beyond=4)
@every_kind
async def test_every_operation_works(carrier: UserConnection, interlock_url: str) -> None:
    names = Names(interlock_url, carrier)
    async with carrier.transaction():
        assert [type(one) for one in await names("claim_all", ["b", "a"], "A")] == [Claimed, Claimed]  # type: ignore[attr-defined]
        assert isinstance(await names("transfer", "a", "A", "B"), Released)
        assert isinstance(await names("release", "b", "A", gone=True), Released)
        assert [(one.name, one.owner) for one in await names("owned")] == [("a", "B")]  # type: ignore[attr-defined]
        assert [one.owner for one in await names("history", "a")] == ["A", "B"]  # type: ignore[attr-defined]
    async with carrier.transaction():
        assert isinstance(await names("claim", "a", "C"), Taken)


@pytest.mark.exhaustive(beyond=2)
@every_kind
async def test_an_error_in_the_transaction_undoes_the_claim(carrier: UserConnection, interlock_url: str) -> None:
    async def claim_and_fail() -> None:
        async with carrier.transaction():
            await Names(interlock_url, carrier)("claim", "mydb", "A")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await claim_and_fail()
    assert execute(interlock_url, "SELECT count(*) FROM interlock.claim") == [(0,)]


@pytest.mark.exhaustive(beyond=8)
@every_kind_and_variant
async def test_outside_a_transaction_it_is_refused(kind: Kind, interlock_url: str) -> None:
    async with kind(interlock_url, autocommit=True) as carrier:
        with pytest.raises(errors.ConnectionUnfit, match="autocommit"):
            await Names(interlock_url, carrier)("claim", "mydb", "A")


@pytest.mark.exhaustive(beyond=2)
@every_kind
async def test_an_old_snapshot_raises_retry_transaction(carrier: UserConnection, interlock_url: str) -> None:
    names = Names(interlock_url, carrier)

    async def claim_late() -> None:
        async with carrier.transaction():
            await carrier.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
            await names("owned")
            with transaction(interlock_url) as connection:
                Interlock(interlock_url).claim(connection, "dns", "mydb", "A")
            await names("claim", "mydb", "B")

    with pytest.raises(errors.RetryTransaction) as caught:
        await claim_late()
    assert caught.value.sqlstate == "40001"


async def test_a_connection_of_the_wrong_kind(interlock_url: str, database_url: str) -> None:
    names = Interlock(interlock_url).claims("dns")
    with pytest.raises(errors.ConnectionUnfit, match="not a connection that Interlock knows"):
        names.claim(object(), "mydb", "A")
    locks = AsyncInterlock(interlock_url)
    with psycopg.connect(interlock_url) as connection, pytest.raises(errors.ConnectionUnfit, match="would block"):
        await locks.claim(connection, "dns", "mydb", "A")
    with psycopg.connect(database_url) as connection, pytest.raises(errors.ConnectionUnfit, match="schema apply"):
        names.claim(connection, "mydb", "A")


def test_a_role_needs_the_privileges_for_claims_and_no_others(interlock_url: str) -> None:
    parts = urlsplit(interlock_url)
    role = f"claimer_{parts.path.lstrip('/')}"
    execute(interlock_url, f"CREATE ROLE {role} LOGIN PASSWORD 'geheim'")
    url = urlunsplit(parts._replace(netloc=f"{role}:geheim@{parts.hostname}:{parts.port}"))
    names = Interlock(url).claims("dns")
    with psycopg.connect(url) as connection, pytest.raises(errors.PermissionMissing, match="--for claims"):
        names.claim(connection, "mydb", "A")
    execute(interlock_url, grant_sql(role, "interlock", ["claims"]))
    with psycopg.connect(url) as connection:
        names.claim(connection, "mydb", "A")
        names.transfer(connection, "mydb", "A", "B")
        assert [past.owner for past in names.history(connection, "mydb")] == ["A", "B"]
    with psycopg.connect(url) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("UPDATE interlock.claim SET owner = 'C'")
