"""Tables that may only be written under a lease; see `guard_scenarios`.

`guard_v1` leaves a setting in the transaction, and the table's trigger reads it. A *claim* is that setting without the
guard, set by hand or left over in a session: the trigger checks it against the lease.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import psycopg

from support.guard_scenarios import (
    LEVELS,
    LOSSES,
    READ_LEVELS,
    begun,
    granted_to_another_with_the_same_token,
    guard,
    notes,
    prepare,
    robbed,
    verdict,
    write,
)
from support.leases import Grant, expire, granted, steal
from support.postgres import execute


def protected(url: str) -> Grant:
    grant = prepare(url)
    execute(url, "SELECT interlock.protect_v1('notes', 'feeds')")
    return grant


def protected_anew(url: str) -> Grant:
    execute(url, "DROP TABLE IF EXISTS notes; TRUNCATE interlock.lease")
    return protected(url)


def committed(connection: psycopg.Connection) -> str:
    """The SQLSTATE with which COMMIT fails, or `committed`."""
    try:
        connection.commit()
    except psycopg.Error as error:
        return error.sqlstate or "no code"
    return "committed"


def begin(connection: psycopg.Connection, level: str = "READ COMMITTED") -> None:
    """Begin a transaction whose snapshot is taken now."""
    connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
    connection.execute("SELECT count(*) FROM notes")


def claim(connection: psycopg.Connection, grant: Grant, *, for_the_session: bool = False) -> None:
    carried = json.dumps({grant.name: [grant.token, str(grant.grant_id)]})
    connection.execute("SELECT set_config('interlock_guard.carried', %s, %s)", [carried, not for_the_session])


@contextmanager
def claiming(url: str, grant: Grant) -> Iterator[psycopg.Connection]:
    """A session with a claim that applies to all of its transactions."""
    with psycopg.connect(url) as connection:
        claim(connection, grant, for_the_session=True)
        connection.commit()
        yield connection
        if not connection.closed:
            connection.rollback()


@contextmanager
def guarded_by_others(url: str, grant: Grant, others: int) -> Iterator[None]:
    """Open transactions of other sessions with the guard of the same lease: the row lock is then a multixact."""
    with ExitStack() as stack:
        for _ in range(others):
            guard(stack.enter_context(begun(url)), grant)
        yield


def guarded_transactions_commit(url: str) -> None:
    """With the guard first or last, beside other guarded transactions, and with renewals in between."""
    for level in LEVELS:
        for others in (0, 1, 2):
            grant = protected_anew(url)
            with guarded_by_others(url, grant, others), psycopg.connect(url) as connection:
                for steps in ((guard, _write_two), (_write_two, guard)) * 2:
                    begin(connection, level)
                    for step in steps:
                        step(connection, grant)
                        assert grant.renew() == "renewed"
                    assert committed(connection) == "committed", (level, others)
            assert notes(url) == ["a"] * 8


def _write_two(connection: psycopg.Connection, grant: Grant) -> None:
    write(connection)
    write(connection)


def a_guard_serves_one_transaction(url: str) -> None:
    """Committed or rolled back."""
    grant = protected_anew(url)
    with psycopg.connect(url) as connection:
        for end in (connection.commit, connection.rollback):
            guard(connection, grant)
            end()
            write(connection)
            assert committed(connection) == "IL002"
    assert notes(url) == []


def each_table_has_its_own_guard(url: str) -> None:
    grant = protected_anew(url)
    execute(url, "CREATE TABLE IF NOT EXISTS logs (); SELECT interlock.protect_v1('logs', 'other')")
    other = granted(url, "other")
    for guards, expected in (((grant, other), "committed"), ((grant,), "IL002"), ((other,), "IL002")):
        with begun(url) as connection:
            for each in guards:
                guard(connection, each)
            write(connection)
            connection.execute("INSERT INTO logs DEFAULT VALUES")
            assert committed(connection) == expected
    assert notes(url) == ["a"]


def guards_after_a_savepoint_open_nothing(url: str) -> None:
    """Also in a transaction that continues after a rollback to the savepoint."""
    for level in LEVELS:
        for others in (0, 1, 2):
            grant = protected_anew(url)
            with begun(url, level) as connection:
                with guarded_by_others(url, grant, others):
                    write(connection)
                    connection.execute("SAVEPOINT here")
                    verdict(connection, grant)
                    connection.execute("ROLLBACK TO here")
                assert steal(grant) == "granted", (level, others)
                assert committed(connection) == "IL002", (level, others)
            assert notes(url) == []


def rows_of_savepoints_commit(url: str) -> None:
    """The savepoint is released, open at COMMIT, or rolled back beside others that count."""
    for level in LEVELS:
        for others in (0, 1, 2):
            grant = protected_anew(url)
            with guarded_by_others(url, grant, others), psycopg.connect(url) as connection:
                for end in ("RELEASE here", "SELECT", "ROLLBACK TO here"):
                    begin(connection, level)
                    guard(connection, grant)
                    connection.execute("SAVEPOINT here")
                    write(connection, end)
                    connection.execute("SAVEPOINT deeper")
                    write(connection, end)
                    connection.execute(end)
                    if end == "ROLLBACK TO here":
                        write(connection, "after")
                    assert committed(connection) == "committed", (level, others, end)
            assert notes(url) == sorted(["RELEASE here", "SELECT"] * 2 + ["after"])


def guards_are_good_to_the_end(url: str) -> None:
    """As with a lease block inside one request's transaction; also beside other guarded transactions."""
    for loss in (expire, Grant.release):
        for others in (0, 1, 2):
            for checked in ("SET CONSTRAINTS ALL DEFERRED", "SET CONSTRAINTS ALL IMMEDIATE"):
                grant = protected_anew(url)
                with guarded_by_others(url, grant, others), begun(url) as connection:
                    guard(connection, grant)
                    write(connection)
                    connection.execute(checked)
                    loss(grant)
                    assert _written(connection, "b") == "written", (loss, others, checked)
                    assert committed(connection) == "committed", (loss, others, checked)
                assert notes(url) == ["a", "b"]


def _written(connection: psycopg.Connection, note: str) -> str:
    try:
        write(connection, note)
    except psycopg.Error as error:
        return error.sqlstate or "no code"
    return "written"


def stale_claims_open_nothing(url: str) -> None:
    for level in LEVELS:
        for loss in LOSSES:
            grant = protected_anew(url)
            with claiming(url, grant) as connection:
                begin(connection, level)
                write(connection)
                loss(grant)
                assert committed(connection) == ("IL001" if level in READ_LEVELS else "40001"), (level, loss)
                write(connection)
                assert committed(connection) == "IL001", (level, loss)
            assert notes(url) == []


def late_claims_open_nothing(url: str) -> None:
    """The lease is free, and the next holder may take it at any moment."""
    losses: tuple[Callable[[Grant], object], ...] = (expire, Grant.release)
    for level in READ_LEVELS:
        for loss in losses:
            grant = protected_anew(url)
            with claiming(url, grant) as connection:
                begin(connection, level)
                write(connection)
                write(connection)
                loss(grant)
                assert committed(connection) == "IL001", (level, loss)
            assert notes(url) == []


def claims_with_anothers_token_open_nothing(url: str) -> None:
    grant = protected_anew(url)
    with claiming(url, grant) as connection:
        begin(connection)
        write(connection)
        granted_to_another_with_the_same_token(grant)
        assert committed(connection) == "IL001"
    assert notes(url) == []


def claims_beside_others_open_nothing(url: str) -> None:
    """A lock of another transaction counts until that transaction ends."""
    for others in (1, 2):
        grant = protected_anew(url)
        with begun(url) as connection, guarded_by_others(url, grant, others):
            assert grant.release() == "released"
            claim(connection, grant)
            write(connection)
            assert committed(connection) == "IL001", others
        assert notes(url) == []


def a_claim_of_an_older_grant_gives_way(url: str) -> None:
    """A claim yields to the guard of a newer grant in transactions that call it."""
    stale = protected_anew(url)
    with claiming(url, stale) as connection:
        robbed(stale)
        execute(url, "UPDATE interlock.lease SET expires_at = '-infinity'")
        newer = granted(url)
        guard(connection, newer)
        write(connection)
        assert committed(connection) == "committed"
        write(connection)
        assert committed(connection) == "IL001"
    assert notes(url) == ["a"]


def checked_early_it_keeps_thieves_out(url: str) -> None:
    """The holder's renewals are not blocked."""
    grant = protected_anew(url)
    with claiming(url, grant) as connection:
        begin(connection)
        write(connection)
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        assert grant.renew() == "renewed"
        assert steal(grant) == "locked"
        assert committed(connection) == "committed"
    assert (steal(grant), notes(url)) == ("granted", ["a"])


def checked_early_after_a_savepoint_it_is_checked_again(url: str) -> None:
    """A rollback to the savepoint undoes the lock, and keeps the rows from before it."""
    for level in LEVELS:
        for others in (0, 1, 2):
            grant = protected_anew(url)
            with claiming(url, grant) as connection:
                with guarded_by_others(url, grant, others):
                    begin(connection, level)
                    write(connection)
                    connection.execute("SAVEPOINT here")
                    connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
                    write(connection, "b")
                assert steal(grant) == "locked", (level, others)
                connection.execute("ROLLBACK TO here")
                assert steal(grant) == "granted", (level, others)
                assert committed(connection) == ("IL001" if level in READ_LEVELS else "40001"), (level, others)
            assert notes(url) == []


def checked_early_after_a_savepoint_it_holds_to_the_end(url: str) -> None:
    """If the savepoint is released, or open at COMMIT."""
    for others in (0, 1, 2):
        for end in ("RELEASE here", "SELECT"):
            grant = protected_anew(url)
            with claiming(url, grant) as connection:
                with guarded_by_others(url, grant, others):
                    begin(connection)
                    connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
                    connection.execute("SAVEPOINT here")
                    write(connection)
                    connection.execute(end)
                    write(connection, "b")
                assert steal(grant) == "locked", (others, end)
                assert committed(connection) == "committed", (others, end)
            assert notes(url) == ["a", "b"]
