"""Scenarios for steps that may run again; a scenario raises if a repetition has another effect."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from support.repeatable_writes import CarelessWrites, PlainInserts, Writes

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


def row(connection: psycopg.Connection, columns: str) -> Any:
    [found] = connection.execute(f"SELECT {columns} FROM orders WHERE id = '7'").fetchall()
    return found[0] if len(found) == 1 else found


def events(connection: psycopg.Connection) -> list[Any]:
    return connection.execute("SELECT kind, recorded_at FROM order_events ORDER BY kind").fetchall()


def created_twice_is_there_once(writes: Writes, connection: psycopg.Connection) -> None:
    writes.create(connection, "7", "A")
    writes.create(connection, "7", "A")
    assert row(connection, "created_by") == "A"


def created_by_another_stays_the_firsts(writes: Writes, connection: psycopg.Connection) -> None:
    writes.create(connection, "7", "A")
    writes.create(connection, "7", "B")
    assert row(connection, "created_by") == "A"


def an_update_of_what_is_so_already_changes_nothing(writes: Writes, connection: psycopg.Connection) -> None:
    writes.create(connection, "7", "A")
    writes.update(connection, "7", "Main St", "ring", NOON)
    first = row(connection, "updated_at, xmin")
    connection.commit()
    writes.update(connection, "7", "Main St", "ring", LATER)
    assert row(connection, "updated_at, xmin") == first


def an_insert_that_is_repeated_is_there_once(writes: Writes, connection: psycopg.Connection) -> None:
    writes.append(connection, "7", "checked", NOON)
    writes.append(connection, "7", "checked", NOON)
    assert len(events(connection)) == 1


def a_row_that_is_deleted_stays(writes: Writes, connection: psycopg.Connection) -> None:
    writes.create(connection, "7", "A")
    writes.delete(connection, "7", NOON)
    assert row(connection, "deleted_at") is not None


def a_deletion_that_is_repeated_keeps_its_first_time(writes: Writes, connection: psycopg.Connection) -> None:
    writes.create(connection, "7", "A")
    writes.delete(connection, "7", NOON)
    first = row(connection, "deleted_at")
    writes.delete(connection, "7", LATER)
    assert row(connection, "deleted_at") == first


def times_are_those_that_were_recorded(writes: Writes, connection: psycopg.Connection) -> None:
    writes.create(connection, "7", "A")
    writes.append(connection, "7", "checked", NOON)
    writes.update(connection, "7", "Main St", None, NOON)
    writes.delete(connection, "7", NOON)
    assert events(connection) == [("checked", NOON)]
    assert row(connection, "updated_at, deleted_at") == (NOON, NOON)


def a_state_is_only_left_as_declared(writes: Writes, connection: psycopg.Connection) -> None:
    writes.create(connection, "7", "A")
    writes.move(connection, "7", "ship")
    assert row(connection, "state") == "new"


def a_late_repetition_does_not_bring_a_state_back(writes: Writes, connection: psycopg.Connection) -> None:
    writes.create(connection, "7", "A")
    writes.move(connection, "7", "pay")
    writes.move(connection, "7", "ship")
    writes.move(connection, "7", "pay")
    assert row(connection, "state") == "shipped"


def an_event_that_is_repeated_moves_nothing(writes: Writes, connection: psycopg.Connection) -> None:
    writes.create(connection, "7", "A")
    writes.move(connection, "7", "pay")
    connection.commit()
    first = row(connection, "state, xmin")
    writes.move(connection, "7", "pay")
    assert row(connection, "state, xmin") == first


def what_is_not_given_is_kept(writes: Writes, connection: psycopg.Connection) -> None:
    writes.create(connection, "7", "A")
    writes.update(connection, "7", "Main St", None, NOON)
    writes.update(connection, "7", None, "ring", NOON)
    assert row(connection, "address, note") == ("Main St", "ring")


def two_events_at_one_time_are_two(writes: Writes, connection: psycopg.Connection) -> None:
    writes.append(connection, "7", "checked", NOON)
    writes.append(connection, "7", "paid", NOON)
    assert events(connection) == [("checked", NOON), ("paid", NOON)]


def the_database_itself_refuses_what_was_not_declared(writes: Writes, connection: psycopg.Connection) -> None:
    """The database refuses the transition, whichever program requests it."""
    writes.create(connection, "7", "A")
    for statement in ("UPDATE orders SET state = 'shipped'", "INSERT INTO orders VALUES ('8', 'A', 'paid')"):
        try:
            with connection.transaction():
                connection.execute(statement)
        except psycopg.errors.CheckViolation:
            continue
        raise AssertionError(statement)


Scenario = Callable[[Writes, psycopg.Connection], None]
CHECKLIST: dict[Scenario, type[CarelessWrites]] = {
    created_twice_is_there_once: PlainInserts,
    created_by_another_stays_the_firsts: CarelessWrites,
    an_update_of_what_is_so_already_changes_nothing: CarelessWrites,
    an_insert_that_is_repeated_is_there_once: CarelessWrites,
    a_row_that_is_deleted_stays: PlainInserts,
    a_deletion_that_is_repeated_keeps_its_first_time: CarelessWrites,
    times_are_those_that_were_recorded: CarelessWrites,
    a_state_is_only_left_as_declared: CarelessWrites,
    a_late_repetition_does_not_bring_a_state_back: CarelessWrites,
    an_event_that_is_repeated_moves_nothing: CarelessWrites,
    what_is_not_given_is_kept: CarelessWrites,
    two_events_at_one_time_are_two: PlainInserts,
    the_database_itself_refuses_what_was_not_declared: CarelessWrites,
}
"""The failures of careless writes, by scenario."""
