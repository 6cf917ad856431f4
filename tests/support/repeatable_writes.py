"""The writes of a service whose steps may run again, in two variants: with Interlock, and careless.

The careless variant shows that the scenarios find the faults.
"""

from datetime import datetime
from typing import Any, Protocol

import psycopg

from interlock.idempotency import Decision, EventLog, StateMachine, Table

SCHEMA = """
    CREATE TABLE orders (
        id text PRIMARY KEY, created_by text NOT NULL, state text NOT NULL DEFAULT 'new', address text, note text,
        updated_at timestamptz, deleted_at timestamptz
    );
    CREATE TABLE order_events (order_id text, kind text, recorded_at timestamptz, details jsonb);
"""
MACHINE = StateMachine(
    "public.orders",
    {"new": {"pay": "paid", "cancel": "cancelled"}, "paid": {"ship": "shipped", "cancel": "cancelled"}},
)
EVENTS = EventLog("order_events", subject="order_id")
ORDERS = Table("public.orders", owner="created_by")


class Writes(Protocol):
    setup: str
    """The SQL that the variant needs."""

    def create(self, connection: psycopg.Connection, key: str, owner: str) -> object: ...
    def update(
        self, connection: psycopg.Connection, key: str, address: str | None, note: str | None, at: datetime
    ) -> object: ...
    def delete(self, connection: psycopg.Connection, key: str, at: datetime) -> object: ...
    def append(self, connection: psycopg.Connection, key: str, kind: str, at: datetime) -> object: ...
    def move(self, connection: psycopg.Connection, key: str, event: str) -> object: ...


class RepeatableWrites:
    setup = MACHINE.install_sql() + EVENTS.constraint

    def create(self, connection: psycopg.Connection, key: str, owner: str) -> Decision:
        return ORDERS.create_sync(connection, {"id": key, "created_by": owner})

    def update(
        self, connection: psycopg.Connection, key: str, address: str | None, note: str | None, at: datetime
    ) -> Decision:
        return ORDERS.update_sync(connection, key, {"address": address, "note": note}, stamp={"updated_at": at})

    def delete(self, connection: psycopg.Connection, key: str, at: datetime) -> Decision:
        return ORDERS.delete_sync(connection, key, at)

    def append(self, connection: psycopg.Connection, key: str, kind: str, at: datetime) -> Decision:
        return EVENTS.append_sync(connection, key, kind, at)

    def move(self, connection: psycopg.Connection, key: str, event: str) -> Decision:
        return MACHINE.apply_sync(connection, key, event)


class CarelessWrites:
    """The obvious statements. An existing row is taken over by the new owner, and its time is that of the write."""

    setup = "CREATE UNIQUE INDEX ON order_events (order_id, recorded_at)"

    def create(self, connection: psycopg.Connection, key: str, owner: str) -> object:
        return _run(
            connection,
            "INSERT INTO orders (id, created_by) VALUES (%s, %s) "
            "ON CONFLICT (id) DO UPDATE SET created_by = excluded.created_by RETURNING id",
            key,
            owner,
        )

    def update(
        self, connection: psycopg.Connection, key: str, address: str | None, note: str | None, at: datetime
    ) -> object:
        statement = "UPDATE orders SET address = %s, note = %s, updated_at = clock_timestamp() WHERE id = %s"
        return _run(connection, statement, address, note, key)

    def delete(self, connection: psycopg.Connection, key: str, at: datetime) -> object:
        return _run(connection, "UPDATE orders SET deleted_at = clock_timestamp() WHERE id = %s", key)

    def append(self, connection: psycopg.Connection, key: str, kind: str, at: datetime) -> object:
        statement = "INSERT INTO order_events VALUES (%s, %s, clock_timestamp()) ON CONFLICT DO NOTHING"
        return _run(connection, statement, key, kind)

    def move(self, connection: psycopg.Connection, key: str, event: str) -> object:
        target = {"pay": "paid", "ship": "shipped", "cancel": "cancelled"}[event]
        return _run(connection, "UPDATE orders SET state = %s WHERE id = %s", target, key)


class PlainInserts(CarelessWrites):
    """The obvious statements, in which an existing row is an error, or is lost."""

    def create(self, connection: psycopg.Connection, key: str, owner: str) -> object:
        return _run(connection, "INSERT INTO orders (id, created_by) VALUES (%s, %s)", key, owner)

    def append(self, connection: psycopg.Connection, key: str, kind: str, at: datetime) -> object:
        statement = "INSERT INTO order_events VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
        return _run(connection, statement, key, kind, at)

    def delete(self, connection: psycopg.Connection, key: str, at: datetime) -> object:
        return _run(connection, "DELETE FROM orders WHERE id = %s", key)


def _run(connection: psycopg.Connection, statement: Any, *args: Any) -> object:
    return connection.execute(statement, args).rowcount
