"""Guards work alike on every kind of connection."""

from collections.abc import AsyncIterator

import pytest

from interlock.errors import GuardRefused, InterlockError, LeaseLost
from support.leases import Grant, break_open, expire, granted, steal
from support.postgres import execute
from support.sql_leases import ask
from support.user_connections import KINDS, VARIANTS, Kind, UserConnection

every_kind = pytest.mark.parametrize("kind", KINDS, indirect=True)
every_kind_and_variant = pytest.mark.parametrize("kind", KINDS | VARIANTS, indirect=True)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> Kind:
    return (KINDS | VARIANTS)[request.param]


@pytest.fixture
def url(interlock_url: str) -> str:
    execute(interlock_url, "CREATE TABLE notes (note text)")
    return interlock_url


@pytest.fixture
async def carrier(kind: Kind, url: str) -> AsyncIterator[UserConnection]:
    async with kind(url) as carrier:
        yield carrier


@pytest.fixture
def grant(url: str) -> Grant:
    return granted(url)


def notes(url: str) -> list[str]:
    return [note for (note,) in execute(url, "SELECT note FROM notes ORDER BY note")]


async def write_in_a_nested_transaction_that_fails(carrier: UserConnection, grant: Grant) -> None:
    async with carrier.nested():
        await carrier.write("inside")
        await carrier.guard(grant)
        raise ZeroDivisionError


async def write(carrier: UserConnection, note: str) -> None:
    async with carrier.transaction():
        await carrier.write(note)


async def guard_in_a_read_only_transaction(carrier: UserConnection, grant: Grant) -> None:
    async with carrier.transaction():
        await carrier.execute("SET TRANSACTION READ ONLY")
        await carrier.guard(grant)


async def lose_the_lease_while_writing(carrier: UserConnection, grant: Grant) -> None:
    async with carrier.transaction():
        await carrier.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await carrier.write("a")
        assert steal(grant) == "granted"
        await carrier.guard(grant)


@pytest.mark.exhaustive(beyond=10)
@every_kind_and_variant
async def test_a_guarded_write_commits_while_the_grant_is_current(
    carrier: UserConnection, grant: Grant, url: str
) -> None:
    async with carrier.transaction():
        await carrier.guard(grant)
        await carrier.write("a")
    await carrier.write_guarded("b", grant)
    assert notes(url) == ["a", "b"]


@pytest.mark.exhaustive(beyond=8)
@every_kind_and_variant
async def test_a_stale_grant_writes_nothing_and_raises(carrier: UserConnection, grant: Grant, url: str) -> None:
    assert steal(grant) == "granted"
    with pytest.raises(LeaseLost, match="another database") as lost:
        await carrier.write_guarded("a", grant)
    assert (lost.value.name, lost.value.token) == (grant.name, grant.token)
    assert notes(url) == []


@pytest.mark.exhaustive(beyond=2)
@every_kind
async def test_an_untrusted_grant_is_refused_without_a_request(carrier: UserConnection, grant: Grant, url: str) -> None:
    grant.trusted = False
    async with carrier.transaction():
        with pytest.raises(LeaseLost, match="not trusted"):
            await carrier.guard(grant)
        await carrier.write("the transaction is still good")
    assert len(notes(url)) == 1


@pytest.mark.exhaustive(beyond=4)
@every_kind_and_variant
async def test_a_guard_outside_a_transaction_is_refused(kind: Kind, grant: Grant, url: str) -> None:
    async with kind(url, autocommit=True) as carrier:
        with pytest.raises(GuardRefused, match="autocommit") as refusal:
            await carrier.guard(grant)
    assert refusal.value.name == grant.name


@pytest.mark.exhaustive(beyond=2)
@every_kind
async def test_a_guard_in_a_nested_transaction_is_refused(carrier: UserConnection, grant: Grant, url: str) -> None:
    async with carrier.transaction():
        await carrier.write("outside")
        with pytest.raises(GuardRefused, match="savepoint"):
            async with carrier.nested():
                await carrier.guard(grant)
    assert notes(url) == ["outside"]


@pytest.mark.exhaustive(beyond=2)
@every_kind
async def test_a_guard_survives_the_rollback_of_a_nested_transaction(
    carrier: UserConnection, grant: Grant, url: str
) -> None:
    async with carrier.transaction():
        await carrier.guard(grant)
        with pytest.raises(ZeroDivisionError):
            await write_in_a_nested_transaction_that_fails(carrier, grant)
        await carrier.write("outside")
        assert steal(grant) == "locked"
    assert notes(url) == ["outside"]


@pytest.mark.exhaustive(beyond=2)
@every_kind
async def test_renewals_and_the_release_pass_an_open_guard(carrier: UserConnection, grant: Grant, url: str) -> None:
    async with carrier.transaction():
        await carrier.guard(grant)
        assert grant.renew() == "renewed"
        await carrier.write("a")
        assert grant.release() == "released"
    assert notes(url) == ["a"]


@pytest.mark.exhaustive(beyond=2)
@every_kind
async def test_the_next_holder_waits_for_the_end_of_a_guarded_transaction(
    carrier: UserConnection, grant: Grant, url: str
) -> None:
    async with carrier.transaction():
        await carrier.guard(grant)
        assert steal(grant) == "locked"
        await carrier.write("a")
    assert ask(url, grant.name, ttl=30).status == "granted"
    assert notes(url) == ["a"]


@pytest.mark.exhaustive(beyond=2)
@every_kind
async def test_the_next_holder_of_a_broken_lease_waits_for_the_guarded_transaction(
    carrier: UserConnection, grant: Grant, url: str
) -> None:
    async with carrier.transaction():
        await carrier.guard(grant)
        break_open(grant)
        assert ask(url, grant.name, ttl=30).status == "locked"
        await carrier.write("a")
    assert ask(url, grant.name, ttl=30).status == "granted"
    assert notes(url) == ["a"]


@pytest.mark.exhaustive(beyond=3)
@every_kind
async def test_the_drivers_own_errors_stay_as_they_are(carrier: UserConnection, grant: Grant) -> None:
    with pytest.raises(Exception, match="read-only transaction") as error:
        await guard_in_a_read_only_transaction(carrier, grant)
    assert not isinstance(error.value, InterlockError)


@pytest.mark.exhaustive(beyond=2)
@every_kind
async def test_with_an_older_snapshot_a_stale_guard_is_a_serialization_failure(
    carrier: UserConnection, grant: Grant, url: str
) -> None:
    with pytest.raises(Exception, match="could not serialize access") as error:
        await lose_the_lease_while_writing(carrier, grant)
    assert not isinstance(error.value, InterlockError)
    with pytest.raises(LeaseLost):
        await carrier.write_guarded("b", grant)
    assert notes(url) == []


@pytest.mark.exhaustive(beyond=2)
@every_kind
async def test_an_expired_lease_is_not_guarded_even_if_it_is_free(
    carrier: UserConnection, grant: Grant, url: str
) -> None:
    expire(grant)
    with pytest.raises(LeaseLost):
        await carrier.write_guarded("a", grant)
    assert notes(url) == []


@pytest.mark.exhaustive(beyond=2)
@every_kind
async def test_a_protected_table_is_written_with_the_guard_and_not_without(
    carrier: UserConnection, grant: Grant, url: str
) -> None:
    execute(url, "SELECT interlock.protect_v1('notes', 'feeds')")
    for _ in range(2):
        await carrier.write_guarded("guarded", grant)
        with pytest.raises(Exception, match="may only be written under the lease 'feeds'") as error:
            await write(carrier, "not guarded")
        assert not isinstance(error.value, InterlockError)
    assert notes(url) == ["guarded", "guarded"]
