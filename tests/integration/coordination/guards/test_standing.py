"""What every kind of connection does with a guard that stands on it: the same."""

from collections.abc import AsyncIterator

import pytest

from interlock.connections import code_of
from interlock.errors import GuardRefused, InterlockError, LeaseLost
from support.carriers import KINDS, STANDING, VARIANTS, Carrier, Kind
from support.guard_scenarios import released_and_taken
from support.leases import Grant, granted, steal
from support.postgres import execute
from support.protection_scenarios import protected

END_OTHERS = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
    "WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
)

every_kind = pytest.mark.parametrize("kind", STANDING, indirect=True)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> Kind:
    return STANDING[request.param]


@pytest.fixture
def grant(interlock_url: str) -> Grant:
    return protected(interlock_url)


@pytest.fixture
async def carrier(kind: Kind, grant: Grant) -> AsyncIterator[Carrier]:
    async with kind(grant.url) as carrier:
        yield carrier


def notes(grant: Grant) -> list[str]:
    return [note for (note,) in execute(grant.url, "SELECT note FROM notes ORDER BY note")]


async def write(carrier: Carrier, note: str) -> None:
    async with carrier.transaction():
        await carrier.write(note)


async def written(carrier: Carrier, note: str) -> str:
    """The code that a transaction fails with that only writes, or `committed`."""
    try:
        await write(carrier, note)
    except Exception as error:
        return "ours" if isinstance(error, InterlockError) else code_of(error) or "no code"
    return "committed"


async def be_robbed_while_writing(carrier: Carrier, grant: Grant, level: str) -> None:
    async with carrier.guarding(grant), carrier.transaction():
        await carrier.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        await carrier.write("a")
        assert steal(grant) == "granted"


async def go_on_after_being_robbed(carrier: Carrier, grant: Grant) -> None:
    async with carrier.guarding(grant):
        assert steal(grant) == "granted"
        assert await written(carrier, "a") == "IL001"
        await write(carrier, "b")


async def lose(loser: Grant, carrier: Carrier, outer: Grant, inner: Grant) -> None:
    """Two guards stand, and the table of one of them is written that is lost."""
    async with carrier.guarding(outer), carrier.guarding(inner):
        await write(carrier, "both stand")
        released_and_taken(loser)
        async with carrier.transaction():
            await carrier.write("a")
            await carrier.execute("INSERT INTO logs VALUES ('a')")


async def be_cut_off(carrier: Carrier, grant: Grant) -> None:
    async with carrier.guarding(grant):
        assert execute(grant.url, END_OTHERS) == [(True,)]
        raise ZeroDivisionError


async def leave_a_transaction_open(carrier: Carrier, grant: Grant) -> None:
    async with carrier.guarding(grant):
        await carrier.execute("BEGIN")
        await carrier.write("a")


async def fail_in_the_middle(carrier: Carrier, grant: Grant, statement: str) -> None:
    async with carrier.guarding(grant):
        await carrier.execute("BEGIN")
        await carrier.write("a")
        await carrier.execute(statement)
        raise ZeroDivisionError


@every_kind
async def test_in_the_block_every_transaction_is_guarded_and_after_it_none(carrier: Carrier, grant: Grant) -> None:
    assert await written(carrier, "before") == "IL002"
    async with carrier.guarding(grant):
        await write(carrier, "a")
        async with carrier.transaction():
            async with carrier.nested():
                await carrier.write("b")
            await carrier.write("c")
    assert await written(carrier, "after") == "IL002"
    assert notes(grant) == ["a", "b", "c"]


@every_kind
async def test_statements_without_a_transaction_of_their_own_are_guarded_each(kind: Kind, grant: Grant) -> None:
    async with kind(grant.url, autocommit=True) as carrier, carrier.guarding(grant):
        await carrier.write("a")
        await carrier.write("b")
    assert notes(grant) == ["a", "b"]


@every_kind
@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
async def test_who_is_robbed_in_the_middle_writes_nothing(carrier: Carrier, grant: Grant, level: str) -> None:
    with pytest.raises(Exception, match=r"not held by the grant|could not serialize access") as error:
        await be_robbed_while_writing(carrier, grant, level)
    assert isinstance(error.value, LeaseLost) is (level == "READ COMMITTED")
    assert notes(grant) == []
    assert await written(carrier, "after") == "IL002"


@every_kind
async def test_the_commit_says_so_as_the_drivers_error_and_the_block_as_ours(carrier: Carrier, grant: Grant) -> None:
    with pytest.raises(LeaseLost) as lost:
        await go_on_after_being_robbed(carrier, grant)
    assert (lost.value.name, lost.value.token) == (grant.name, grant.token)
    assert code_of(lost.value.__cause__) == "IL001"
    assert notes(grant) == []


@every_kind
@pytest.mark.parametrize("place", [0, 1])
async def test_guards_of_two_leases_stand_and_each_block_tells_of_its_own(
    carrier: Carrier, grant: Grant, place: int
) -> None:
    execute(grant.url, "CREATE TABLE logs (log text); SELECT interlock.protect_v1('logs', 'o''ther\\')")
    grants = (grant, granted(grant.url, "o'ther\\"))
    with pytest.raises(LeaseLost) as lost:
        await lose(grants[place], carrier, *grants)
    assert lost.value.name == grants[place].name
    assert notes(grant) == ["both stand"]
    assert await written(carrier, "after") == "IL002"


@every_kind
async def test_the_same_guard_does_not_stand_twice(carrier: Carrier, grant: Grant) -> None:
    async with carrier.guarding(grant):
        with pytest.raises(GuardRefused, match="the block outside"):
            async with carrier.guarding(grant):
                raise AssertionError
        await write(carrier, "a")
    assert await written(carrier, "after") == "IL002"


@every_kind
async def test_it_is_not_set_in_an_open_transaction(carrier: Carrier, grant: Grant) -> None:
    async with carrier.transaction():
        await carrier.execute("SELECT 1")
        with pytest.raises(GuardRefused, match=r"commit it or roll it back before, or call grant.guard"):
            async with carrier.guarding(grant):
                raise AssertionError
    assert await written(carrier, "after") == "IL002"


@every_kind
async def test_a_transaction_that_is_open_at_the_end_is_rolled_back_and_the_guard_is_gone(
    carrier: Carrier, grant: Grant
) -> None:
    with pytest.raises(GuardRefused, match="commit inside the block"):
        await leave_a_transaction_open(carrier, grant)
    assert notes(grant) == []
    assert await written(carrier, "after") == "IL002"


@every_kind
@pytest.mark.parametrize("statement", ["SELECT 1", "SELECT 1/0"])
async def test_after_an_error_in_a_transaction_sound_or_failed_the_guard_is_gone(
    carrier: Carrier, grant: Grant, statement: str
) -> None:
    with pytest.raises(Exception, match=r"zero|^$") as error:
        await fail_in_the_middle(carrier, grant, statement)
    assert not isinstance(error.value, InterlockError)
    assert notes(grant) == []
    assert await written(carrier, "after") == "IL002"


@every_kind
async def test_a_lease_that_protects_no_table_is_refused(carrier: Carrier, grant: Grant) -> None:
    with pytest.raises(GuardRefused, match=r"No table .* is protected by that lease.*protect_v1"):
        async with carrier.guarding(granted(grant.url, "other")):
            raise AssertionError


@every_kind
async def test_a_stale_grant_and_one_that_is_not_trusted_are_told_at_once(carrier: Carrier, grant: Grant) -> None:
    grant.trusted = False
    with pytest.raises(LeaseLost, match="not trusted"):
        async with carrier.guarding(grant):
            raise AssertionError
    grant.trusted = True
    assert steal(grant) == "granted"
    with pytest.raises(LeaseLost, match="another database"):
        async with carrier.guarding(grant):
            raise AssertionError


@every_kind
async def test_a_session_that_breaks_takes_its_guard_with_it(carrier: Carrier, grant: Grant) -> None:
    with pytest.raises(ZeroDivisionError):
        await be_cut_off(carrier, grant)


@pytest.mark.parametrize("kind", [name for name in KINDS | VARIANTS if name not in STANDING])
async def test_a_session_of_sqlalchemys_changes_connections_and_is_refused(kind: str, grant: Grant) -> None:
    async with (KINDS | VARIANTS)[kind](grant.url) as carrier:
        with pytest.raises(GuardRefused, match="pass a connection, and bind the session to that"):
            async with carrier.guarding(grant):
                raise AssertionError
