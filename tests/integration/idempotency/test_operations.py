"""The decision of each operation, on every kind of connection, also for two at once."""

import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from interlock import errors
from interlock.idempotency import Done, EventLog, Refused, Replayed, StateMachine, Table
from support.postgres import execute
from support.repeatable_writes import EVENTS, MACHINE, ORDERS
from support.user_connections import KINDS, Kind, UserConnection
from support.waiting import eventually

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
every_kind = pytest.mark.parametrize("kind", KINDS, indirect=True)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
async def carrier(kind: Kind, orders_url: str) -> AsyncIterator[UserConnection]:
    async with kind(orders_url) as carrier:
        yield carrier


async def do(carrier: UserConnection, what: Any, *args: Any, **options: Any) -> Any:
    """Call the async method on async connections, and the sync one on others."""
    if carrier.is_async:
        return await what(carrier.connection, *args, **options)
    return getattr(what.__self__, f"{what.__name__}_sync")(carrier.connection, *args, **options)


@pytest.mark.exhaustive(beyond=2)
@every_kind
async def test_every_decision_is_returned(carrier: UserConnection) -> None:
    values = {"id": "7", "created_by": "A"}
    kinds: list[type] = []
    async with carrier.transaction():
        steps: list[tuple[Any, Any]] = [
            (ORDERS.create, (values,)),
            (ORDERS.update, ("7", {"address": "100% :street", "note": None})),
            (EVENTS.append, ("7", "checked", NOON)),
            (MACHINE.apply, ("7", "pay")),
            (ORDERS.delete, ("7", NOON)),
        ]
        for what, args in steps:
            kinds += [type(await do(carrier, what, *args)) for _ in range(2)]
        other = await do(carrier, ORDERS.create, {"id": "7", "created_by": "B"})
        assert isinstance(other, Refused)
        assert (other.value, other.reason) == ("A", "the row belongs to A")
        for what, args in [
            (ORDERS.update, ("8", {"note": "x"})),
            (ORDERS.delete, ("8", NOON)),
            (MACHINE.apply, ("8", "pay")),
        ]:
            missing = await do(carrier, what, *args)
            assert isinstance(missing, Refused)
            assert missing.reason == "there is no such row"
    assert kinds == [Done, Replayed] * 5


@pytest.mark.exhaustive(beyond=2)
@every_kind
async def test_an_event_may_write_columns_with_the_state(carrier: UserConnection, orders_url: str) -> None:
    async with carrier.transaction():
        await do(carrier, ORDERS.create, {"id": "7", "created_by": "A"})
        await do(carrier, MACHINE.apply, "7", "pay", values={"note": "by card", "updated_at": NOON})
        again = await do(carrier, MACHINE.apply, "7", "pay", values={"note": "by cheque"})
        assert again == Replayed("pay", "public.orders", "7", "paid")
    assert execute(orders_url, "SELECT note, updated_at FROM orders") == [("by card", NOON)]


@pytest.mark.exhaustive(beyond=2)
@every_kind
async def test_outside_a_transaction_nothing_is_done(kind: Kind, orders_url: str) -> None:
    async with kind(orders_url, autocommit=True) as carrier:
        with pytest.raises(errors.ConnectionUnfit, match="autocommit"):
            await do(carrier, MACHINE.apply, "7", "pay")


def test_keys_and_owners_may_be_of_any_type(database_url: str) -> None:
    execute(database_url, "CREATE TABLE things (id bigint PRIMARY KEY, owner uuid, deleted_at timestamptz)")
    things, owner = Table("things"), "7b0fd6f3-5f2c-4f0e-9a52-3c5b0b3a9e11"
    with psycopg.connect(database_url) as connection:
        kinds = [type(things.create_sync(connection, {"id": 2**40, "owner": owner})) for _ in range(2)]
    assert kinds == [Done, Replayed]


def test_a_state_may_be_an_enum(database_url: str) -> None:
    execute(database_url, "CREATE TYPE state AS ENUM ('new', 'paid', 'shipped', 'cancelled')")
    execute(database_url, "CREATE TABLE orders (id int PRIMARY KEY, state state NOT NULL)")
    execute(database_url, MACHINE.install_sql())
    with psycopg.connect(database_url, autocommit=True) as connection, connection.transaction():
        connection.execute("INSERT INTO orders VALUES (7, 'new')")
        assert isinstance(MACHINE.apply_sync(connection, 7, "pay"), Done)
        assert isinstance(MACHINE.apply_sync(connection, 7, "ship"), Done)
        refused = MACHINE.apply_sync(connection, 7, "cancel")
        assert isinstance(refused, Refused)
        assert (refused.value, refused.reason) == (
            "shipped",
            "the state 'shipped' does not have this event: it has no events",
        )


def test_a_changed_machine_is_installed_again(orders_url: str) -> None:
    wider = StateMachine("public.orders", {"new": {"pay": "paid", "refuse": "refused"}, "paid": {"ship": "shipped"}})
    execute(orders_url, wider.install_sql())
    execute(orders_url, "INSERT INTO orders (id, created_by) VALUES ('7', 'A')")
    execute(orders_url, "UPDATE orders SET state = 'refused'")
    with pytest.raises(psycopg.errors.CheckViolation, match="does not go from 'refused' to 'paid'") as error:
        execute(orders_url, "UPDATE orders SET state = 'paid'")
    assert error.value.diag.constraint_name == "orders_state_machine"
    with pytest.raises(psycopg.errors.CheckViolation, match="does not begin in the state 'paid'"):
        execute(orders_url, "INSERT INTO orders (id, created_by, state) VALUES ('8', 'A', 'paid')")


def test_the_trigger_sees_the_changes_of_other_triggers(orders_url: str) -> None:
    execute(orders_url, "INSERT INTO orders (id, created_by) VALUES ('7', 'A')")
    execute(
        orders_url,
        "CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN NEW.state := 'shipped'; RETURN NEW; END $$",
    )
    execute(orders_url, "CREATE TRIGGER meddle BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION meddle()")
    with pytest.raises(psycopg.errors.CheckViolation):
        execute(orders_url, "UPDATE orders SET note = 'x'")


def test_a_state_that_is_no_longer_known_is_not_written(orders_url: str) -> None:
    execute(orders_url, "ALTER TABLE orders ALTER state DROP NOT NULL")
    execute(orders_url, "INSERT INTO orders (id, created_by) VALUES ('7', 'A')")
    with pytest.raises(psycopg.errors.CheckViolation):
        execute(orders_url, "UPDATE orders SET state = NULL")


def test_of_two_that_move_a_row_at_once_one_succeeds(orders_url: str) -> None:
    execute(orders_url, "INSERT INTO orders (id, created_by) VALUES ('7', 'A')")
    assert meet(orders_url, lambda connection: MACHINE.apply_sync(connection, "7", "pay")) == [Done, Replayed]


def test_of_two_that_create_a_row_at_once_one_succeeds(orders_url: str) -> None:
    values = {"id": "7", "created_by": "A"}
    assert meet(orders_url, lambda connection: ORDERS.create_sync(connection, values)) == [Done, Replayed]


def test_of_two_that_log_an_event_at_once_one_succeeds(orders_url: str) -> None:
    assert meet(orders_url, lambda connection: EVENTS.append_sync(connection, "7", "paid", NOON)) == [Done, Replayed]


def meet(url: str, work: Any) -> list[type]:
    """Run two operations: the first commits when the second waits for it."""
    results: list[type] = []

    def second() -> None:
        with psycopg.connect(url) as connection:
            results.append(type(work(connection)))

    with psycopg.connect(url) as connection:
        results.append(type(work(connection)))
        thread = threading.Thread(target=second)
        thread.start()
        eventually(lambda: execute(url, BLOCKED)[0][0])
    thread.join()
    return results


def test_an_old_snapshot_raises_retry_transaction(orders_url: str) -> None:
    execute(orders_url, "INSERT INTO orders (id, created_by) VALUES ('7', 'A')")
    with psycopg.connect(orders_url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1")
        execute(orders_url, "UPDATE orders SET state = 'paid'")
        with pytest.raises(errors.RetryTransaction):
            MACHINE.apply_sync(connection, "7", "pay")


def test_a_row_needs_a_key_and_an_owner(orders_url: str) -> None:
    with psycopg.connect(orders_url) as connection, pytest.raises(errors.ConfigurationError, match="its created_by"):
        ORDERS.create_sync(connection, {"id": "7"})


def test_a_missing_constraint_is_named(orders_url: str, database_url: str) -> None:
    execute(database_url, "CREATE TABLE bare (id text, owner text, subject text, kind text, recorded_at timestamptz)")
    with psycopg.connect(database_url) as connection, pytest.raises(errors.ConfigurationError, match="ADD UNIQUE"):
        Table("bare").create_sync(connection, {"id": "7", "owner": "A"})
    with psycopg.connect(database_url) as connection, pytest.raises(errors.ConfigurationError, match="ADD CONSTRAINT"):
        EventLog("bare").append_sync(connection, "7", "paid", NOON)
    execute(database_url, EventLog("bare").constraint)
    with psycopg.connect(database_url) as connection:
        assert isinstance(EventLog("bare").append_sync(connection, "7", "paid", NOON), Done)


def test_every_decision_is_logged(orders_url: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "interlock"), psycopg.connect(orders_url) as connection:
        for owner in "AAB":
            ORDERS.create_sync(connection, {"id": "7", "created_by": owner})
    logged = [(vars(record)["event"], vars(record)["what"], vars(record)["key"]) for record in caplog.records]
    assert logged == [(f"idempotency.{what}", "create", "7") for what in ("done", "replayed", "refused")]
    assert vars(caplog.records[2])["reason"] == "the row belongs to A"
