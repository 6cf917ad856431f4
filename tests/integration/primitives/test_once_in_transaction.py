"""Run once in the user's transaction: the function's writes and the record commit or roll back together."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import psycopg
import pytest

from interlock import AsyncInterlock, Interlock, errors
from interlock.coordination.primitives.once import Once
from interlock.schema import grant_sql
from support.lease_engine import queue, take_away, until
from support.postgres import execute
from support.user_connections import KINDS, Kind, UserConnection

every_kind = pytest.mark.parametrize("kind", KINDS, indirect=True)


@pytest.fixture
def url(interlock_url: str) -> str:
    execute(interlock_url, "CREATE TABLE notes (note text)")
    return interlock_url


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
async def carrier(kind: Kind, url: str) -> AsyncIterator[UserConnection]:
    async with kind(url) as carrier:
        yield carrier


@pytest.fixture
async def connection(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


def notes(url: str) -> list[str]:
    return [note for (note,) in execute(url, "SELECT note FROM notes ORDER BY note")]


def records(url: str) -> int:
    [[count]] = execute(url, "SELECT count(*) FROM interlock.record")
    return int(count)


class Fee:
    """Writes a note in the transaction, and counts its calls."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.calls = 0

    async def charge(self, order: str) -> str:
        self.calls += 1
        await self._connection.execute("INSERT INTO notes VALUES ($1)", order)
        return f"charged {order}"


@pytest.mark.exhaustive(beyond=3)
@every_kind
async def test_on_every_kind_of_connection(
    carrier: UserConnection, locks: AsyncInterlock, sync_locks: Interlock, url: str
) -> None:
    async def write_async() -> str:
        await carrier.write("a")
        return "done"

    def write() -> str:
        coroutine = carrier.write("a")
        with pytest.raises(StopIteration):
            coroutine.send(None)
        return "done"

    async def once() -> str:
        if carrier.is_async:
            return await locks.once("fee:7", write_async, connection=carrier.connection)
        return sync_locks.once("fee:7", write, connection=carrier.connection)

    for _ in range(2):
        async with carrier.transaction():
            assert await once() == "done"
            assert await once() == "done", "also in the transaction that has not committed yet"
    assert notes(url) == ["a"]


async def test_a_rollback_undoes_the_record(locks: AsyncInterlock, connection: Any, url: str) -> None:
    fee = Fee(connection)

    async def charge_and_fail() -> None:
        async with connection.transaction():
            await locks.once("fee:7", fee.charge, "7", connection=connection)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await charge_and_fail()
    assert (notes(url), records(url)) == ([], 0)
    async with connection.transaction():
        assert await locks.once("fee:7", fee.charge, "7", connection=connection) == "charged 7"
    assert (notes(url), fee.calls) == (["7"], 2)


async def test_a_call_that_dies_before_the_commit_leaves_nothing_and_the_next_runs(
    locks: AsyncInterlock, others: AsyncInterlock, connection: Any, url: str
) -> None:
    fee = Fee(connection)
    transaction = connection.transaction()
    await transaction.start()
    await locks.once("fee:7", fee.charge, "7", connection=connection)
    connection.terminate()
    second = await asyncpg.connect(url)
    async with second.transaction():
        assert await others.once("fee:7", Fee(second).charge, "7", connection=second) == "charged 7"
    await second.close()
    assert (notes(url), records(url)) == (["7"], 1)


async def test_calls_during_the_run_wait_for_the_commit(
    locks: AsyncInterlock, others: AsyncInterlock, connection: Any, url: str
) -> None:
    """Also without the user's connection: the record and the lease are the same."""
    fee = Fee(connection)
    async with connection.transaction():
        await locks.once("fee:7", fee.charge, "7", connection=connection)
        second = asyncio.create_task(others.once("fee:7", fee.charge, "7"))
        await until(lambda: queue(url, "fee:7##once"))
        assert not second.done()
    assert await second == "charged 7"
    assert (notes(url), fee.calls) == (["7"], 1)


async def test_a_waiter_runs_it_after_a_rollback(
    locks: AsyncInterlock, others: AsyncInterlock, connection: Any, url: str
) -> None:
    fee = Fee(connection)
    transaction = connection.transaction()
    await transaction.start()
    await locks.once("fee:7", fee.charge, "7", connection=connection)
    second = asyncio.create_task(others.once("fee:7", fee.charge, "7"))
    await until(lambda: queue(url, "fee:7##once"))
    await transaction.rollback()
    assert await second == "charged 7"
    assert (notes(url), fee.calls) == (["7"], 2)


async def test_a_call_that_lost_the_lease_does_not_commit(locks: AsyncInterlock, connection: Any, url: str) -> None:
    async def late() -> None:
        await connection.execute("INSERT INTO notes VALUES ('late')")
        take_away(url, "fee:7##once")

    async def run() -> None:
        async with connection.transaction():
            await locks.once("fee:7", late, connection=connection)

    with pytest.raises(errors.LeaseLost):
        await run()
    assert (notes(url), records(url)) == ([], 0)


async def test_other_arguments_are_a_conflict(locks: AsyncInterlock, connection: Any) -> None:
    fee = Fee(connection)
    async with connection.transaction():
        await locks.once("fee:7", fee.charge, "7", connection=connection)
        with pytest.raises(errors.OnceConflict):
            await locks.once("fee:7", fee.charge, "8", connection=connection)
    with pytest.raises(errors.OnceConflict):
        await locks.once("fee:7", fee.charge, "8")


async def test_options_that_a_transaction_cannot_have_are_refused(
    locks: AsyncInterlock, connection: Any, url: str, database_url: str
) -> None:
    fee = Fee(connection)
    with pytest.raises(errors.ConnectionUnfit, match="autocommit"):
        await locks.once("fee:7", fee.charge, "7", connection=connection)
    async with connection.transaction(isolation="repeatable_read"):
        with pytest.raises(errors.ConnectionUnfit, match="use READ COMMITTED"):
            await locks.once("fee:7", fee.charge, "7", connection=connection)
    elsewhere = await asyncpg.connect(database_url)
    async with elsewhere.transaction():
        with pytest.raises(errors.ConnectionUnfit, match="keeps the leases"):
            await locks.once("fee:7", fee.charge, "7", connection=elsewhere)
    await elsewhere.close()
    with pytest.raises(errors.ConfigurationError, match="kept in PostgreSQL"):
        await AsyncInterlock("sqlite:///nowhere.db").once("fee:7", fee.charge, "7", connection=connection)
    assert (fee.calls, records(url)) == (0, 0)


def test_a_role_that_may_use_leases_may_record(sync_locks: Interlock, url: str) -> None:
    role = f"recorder_{url.rpartition('/')[2]}"
    execute(url, f"CREATE ROLE {role} LOGIN")
    with psycopg.connect(url) as connection:
        connection.execute(f"SET LOCAL ROLE {role}")
        with pytest.raises(errors.PermissionMissing, match="--for leases"):
            sync_locks.once("fee:7", lambda: 1, connection=connection)
    execute(url, grant_sql(role, "interlock", ["leases"]))
    with psycopg.connect(url) as connection:
        connection.execute(f"SET LOCAL ROLE {role}")
        assert sync_locks.once("fee:7", lambda: 1, connection=connection) == 1


async def test_a_record_beside_the_transaction_would_outlive_its_rollback(
    locks: AsyncInterlock, connection: Any, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken variant: the record is written on a connection of Interlock's own."""

    async def beside(self: Once, inside: Any, grant: Any, work: Any) -> Any:
        return await self._run(grant.engine, grant, work)

    monkeypatch.setattr(Once, "_run_in_transaction", beside)
    with pytest.raises(AssertionError):
        await test_a_rollback_undoes_the_record(locks, connection, url)


async def test_a_run_that_was_begun_and_never_recorded_is_detected(
    locks: AsyncInterlock, others: AsyncInterlock, url: str
) -> None:
    """As after a crash between the effect and the record: it is unknown whether the run was done."""
    begun = asyncio.Event()
    effects: list[str] = []

    async def charge(order: str) -> str:
        effects.append(order)
        begun.set()
        if len(effects) == 1:
            await asyncio.Event().wait()
        return "charged"

    first = asyncio.create_task(locks.once("fee:7", charge, "7", unfinished="raise"))
    await begun.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    for _ in range(2):
        with pytest.raises(errors.OnceInterrupted, match=r"begun.*unfinished='again'") as caught:
            await others.once("fee:7", charge, "7", unfinished="raise")
    assert caught.value.key == "fee:7"
    assert effects == ["7"]
    with pytest.raises(errors.OnceConflict):
        await others.once("fee:7", charge, "8")
    assert await others.once("fee:7", charge, "7") == "charged"
    assert await locks.once("fee:7", charge, "7", unfinished="raise") == "charged"
    assert effects == ["7", "7"]


async def test_a_recorded_failure_is_not_an_interruption(locks: AsyncInterlock) -> None:
    calls = 0

    async def flaky(order: str) -> str:
        nonlocal calls
        calls += 1
        return f"{1 // (calls - 1)}"

    with pytest.raises(ZeroDivisionError):
        await locks.once("fee:7", flaky, "7", unfinished="raise")
    assert await locks.once("fee:7", flaky, "8", unfinished="raise") == "1"
    with pytest.raises(errors.ConfigurationError, match="unfinished='no'"):
        await locks.once("fee:7", flaky, "8", unfinished="no")  # type: ignore[arg-type]


async def test_every_decision_is_logged(locks: AsyncInterlock, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> int:
        return 1

    with caplog.at_level("INFO", "interlock.coordination.primitives.once"):
        for _ in range(2):
            await locks.once("fee:7", work)
    logged = [
        vars(record)["event"] for record in caplog.records if record.name == "interlock.coordination.primitives.once"
    ]
    assert logged == ["once.done", "once.replayed"]
