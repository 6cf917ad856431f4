"""Tables that may only be written under a lease; see `guard_scenarios`."""

import json
from contextlib import ExitStack

import psycopg

from support.guard_scenarios import begun, guard, notes, prepare, write
from support.leases import Grant, steal
from support.postgres import execute


def protected(url: str) -> Grant:
    grant = prepare(url)
    execute(url, "SELECT interlock.protect_v1('notes', 'feeds')")
    return grant


def committed(connection: psycopg.Connection) -> str:
    """The code that COMMIT fails with, or `committed`."""
    try:
        connection.commit()
    except psycopg.Error as error:
        return error.sqlstate or "no code"
    return "committed"


def claim(connection: psycopg.Connection, grant: Grant) -> None:
    """Say that the transaction carries the guard, without a guard."""
    carried = json.dumps({grant.name: [grant.token, str(grant.grant_id)]})
    connection.execute("SELECT set_config('interlock_guard.carried', %s, true)", [carried])


def claims_are_checked(url: str) -> None:
    stale = protected(url)
    assert steal(stale) == "granted"
    with begun(url) as connection:
        claim(connection, stale)
        write(connection)
        assert committed(connection) == "IL001"
    assert notes(url) == []


def claims_are_checked_beside_others(url: str) -> None:
    """Whose locks are good to the end of their transactions, and of no other."""
    for others in (1, 2):
        grant = protected(url)
        with begun(url) as connection, ExitStack() as stack:
            for _ in range(others):
                guard(stack.enter_context(begun(url)), grant)
            assert grant.release() == "released"
            claim(connection, grant)
            write(connection)
            assert committed(connection) == "IL001", others
        execute(url, "DROP TABLE notes; TRUNCATE interlock.lease")


def guards_are_good_to_the_end(url: str) -> None:
    """As with a lease block inside one request's transaction, whoever else guards."""
    grant = protected(url)
    with begun(url) as connection, ExitStack() as stack:
        for _ in range(2):
            guard(stack.enter_context(begun(url)), grant)
        guard(connection, grant)
        write(connection)
        assert grant.release() == "released"
        assert committed(connection) == "committed"
    assert notes(url) == ["a"]
