"""Scenarios of guards and savepoints; see `guard_scenarios`."""

from contextlib import ExitStack

import psycopg

from support.guard_scenarios import LEVELS, begun, guard, notes, prepare, verdict, write
from support.leases import Grant, steal
from support.postgres import execute


def guards_after_a_savepoint_are_refused(url: str) -> None:
    for level in LEVELS:
        for others in (0, 1, 2):
            _one_is_refused(url, level, others)


def _one_is_refused(url: str, level: str, others: int) -> None:
    """With `others` transactions that carry the guard of the same lease."""
    grant = prepare(url)
    with begun(url, level) as connection, ExitStack() as stack:
        for _ in range(others):
            guard(stack.enter_context(begun(url)), grant)
        connection.execute("SAVEPOINT here")
        assert verdict(connection, grant) == "IL003", (level, others)
        connection.execute("ROLLBACK TO here")  # the savepoint remains, so a guard is refused again
        write(connection)
        assert verdict(connection, grant) == "IL003", (level, others)
    execute(url, "TRUNCATE interlock.lease")


def guards_outlast_rollbacks(url: str) -> None:
    for level in LEVELS:
        for others in (0, 1):
            _one_outlasts(url, level, others)


def _one_outlasts(url: str, level: str, others: int) -> None:
    grant = prepare(url)
    with begun(url, level) as connection:
        with ExitStack() as stack:
            for _ in range(others):
                guard(stack.enter_context(begun(url)), grant)
            guard(connection, grant)
            connection.execute("SAVEPOINT here")
            write(connection, "undone")
            guard(connection, grant)
            connection.execute("ROLLBACK TO here")
        write(connection)
        assert steal(grant) == "locked", (level, others)
        connection.commit()
    assert (steal(grant), notes(url)) == ("granted", ["a"])
    execute(url, "TRUNCATE interlock.lease, notes")


def guards_may_be_repeated(url: str) -> None:
    """In a nested transaction of a guarded caller, beside other guarded transactions, and after renewals."""
    for level in LEVELS:
        for others in (0, 1, 2):
            grant = prepare(url)
            with begun(url, level) as connection, ExitStack() as stack:
                for _ in range(others):
                    guard(stack.enter_context(begun(url)), grant)
                guard(connection, grant)
                _repeat_within(connection, grant)
                assert grant.renew() == "renewed"
                _repeat_within(connection, grant)
            execute(url, "TRUNCATE interlock.lease")


def _repeat_within(connection: psycopg.Connection, grant: Grant) -> None:
    connection.execute("SAVEPOINT here")
    write(connection)
    assert verdict(connection, grant) == "passed"
    connection.execute("RELEASE here")
