"""Guards that stand in a session; see `guard_scenarios`."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from uuid import uuid4

import psycopg

from support.guard_scenarios import (
    LEVELS,
    LOSSES,
    READ_LEVELS,
    begun,
    granted_to_another_with_the_same_token,
    guard,
    notes,
    robbed,
    write,
)
from support.leases import Grant, expire, granted, steal
from support.postgres import execute
from support.protection_scenarios import committed, protected


def stand(connection: psycopg.Connection, grant: Grant, pid: int | None = None) -> str:
    """In a transaction of its own."""
    call = "SELECT interlock.stand_v1(%s, %s, %s, %s)"
    row = connection.execute(call, [*grant.triple, pid or connection.info.backend_pid]).fetchone()
    connection.commit()
    assert row
    return str(row[0])


def stand_down(connection: psycopg.Connection, grant: Grant) -> bool:
    row = connection.execute("SELECT interlock.stand_down_v1(%s, %s, %s)", grant.triple).fetchone()
    connection.commit()
    assert row
    return bool(row[0])


@contextmanager
def stood(url: str, *grants: Grant) -> Iterator[psycopg.Connection]:
    """A session in which those guards stand."""
    with psycopg.connect(url) as connection:
        for grant in grants:
            assert stand(connection, grant) == "standing"
        yield connection
        if not connection.closed:
            connection.rollback()


def begin(connection: psycopg.Connection, level: str = "READ COMMITTED") -> None:
    """A transaction that sees the database as it is now."""
    connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
    connection.execute("SELECT count(*) FROM notes")


def protected_anew(url: str) -> Grant:
    execute(url, "DROP TABLE IF EXISTS notes; TRUNCATE interlock.lease")
    return protected(url)


def stale_writers_never_commit(url: str) -> None:
    for level in LEVELS:
        for loss in LOSSES:
            grant = protected_anew(url)
            with stood(url, grant) as connection:
                begin(connection, level)
                write(connection)
                loss(grant)
                assert committed(connection) == ("IL001" if level in READ_LEVELS else "40001"), (level, loss)
                write(connection)
                assert committed(connection) == "IL001", (level, loss)
            assert notes(url) == []


def late_writers_never_commit(url: str) -> None:
    """Nobody took it, and the next one may at any moment."""
    for level in READ_LEVELS:
        for loss in (expire, Grant.release):
            grant = protected_anew(url)
            with stood(url, grant) as connection:
                begin(connection, level)
                write(connection)
                write(connection)
                loss(grant)
                assert committed(connection) == "IL001", (level, loss)
            assert notes(url) == []


def strangers_with_the_same_token_never_commit(url: str) -> None:
    grant = protected_anew(url)
    with stood(url, grant) as connection:
        begin(connection)
        write(connection)
        granted_to_another_with_the_same_token(grant)
        assert committed(connection) == "IL001"


def every_transaction_is_served(url: str) -> None:
    """Also with others that guard the same lease, and renewals in between."""
    for level in LEVELS:
        for others in (0, 1, 2):
            grant = protected_anew(url)
            with stood(url, grant) as connection, ExitStack() as stack:
                for _ in range(others):
                    guard(stack.enter_context(begun(url)), grant)
                for note in "abc":
                    begin(connection, level)
                    write(connection, note)
                    write(connection, note)
                    assert grant.renew() == "renewed"
                    assert committed(connection) == "committed", (level, others)
                assert stand_down(connection, grant)
                write(connection)
                assert committed(connection) == "IL002"
            assert notes(url) == list("aabbcc")


def rows_of_savepoints_are_served(url: str) -> None:
    """Released, open at COMMIT, or rolled back beside others that count."""
    for level in LEVELS:
        for others in (0, 1, 2):
            grant = protected_anew(url)
            with stood(url, grant) as connection, ExitStack() as stack:
                for _ in range(others):
                    guard(stack.enter_context(begun(url)), grant)
                for end in ("RELEASE here", "SELECT", "ROLLBACK TO here"):
                    begin(connection, level)
                    connection.execute("SAVEPOINT here")
                    write(connection, end)
                    connection.execute("SAVEPOINT deeper")
                    write(connection, end)
                    connection.execute(end)
                    if end == "ROLLBACK TO here":
                        write(connection, "after")
                    assert committed(connection) == "committed", (level, others, end)
            assert notes(url) == sorted(["RELEASE here", "SELECT"] * 2 + ["after"])


def a_session_has_its_own_guards_only(url: str) -> None:
    """Two of different leases, of which one goes; and whoever takes away another's takes away nothing."""
    grant = protected_anew(url)
    execute(url, "CREATE TABLE IF NOT EXISTS logs (); SELECT interlock.protect_v1('logs', 'other')")
    other = granted(url, "other")
    stranger = Grant(url, replace(granted(url, "stranger").answer, name="feeds"))
    with stood(url, grant, other) as connection:
        assert not stand_down(connection, stranger)
        assert stand(connection, grant) == "already"
        for first in (other, grant):
            write(connection)
            connection.execute("INSERT INTO logs DEFAULT VALUES")
            assert committed(connection) == ("committed" if first is other else "IL002")
            assert stand_down(connection, first)
        write(connection)
        assert committed(connection) == "IL002"
    assert notes(url) == ["a"]


def what_would_serve_others_is_refused(url: str) -> None:
    grant = protected_anew(url)
    with psycopg.connect(url) as connection:
        assert stand(connection, grant, pid=connection.info.backend_pid + 1) == "pooled"
        write(connection)
        assert committed(connection) == "IL002"


def what_would_serve_nobody_is_refused(url: str) -> None:
    grant = protected_anew(url)
    other = granted(url, "other")
    with psycopg.connect(url) as connection:
        assert stand(connection, other) == "unprotected"
        execute(url, "ALTER TABLE notes DISABLE TRIGGER interlock_guard")
        assert stand(connection, grant) == "unprotected"
        execute(url, "ALTER TABLE notes ENABLE TRIGGER interlock_guard")
        assert stand(connection, Grant(url, replace(grant.answer, grant_id=uuid4()))) == "lost"
        assert stand(connection, Grant(url, replace(grant.answer, token=grant.token + 1))) == "lost"
        expire(grant)
        assert stand(connection, grant) == "lost"


def an_older_guard_gives_way(url: str) -> None:
    """One that was left behind is stale, as soon as there is a newer grant."""
    stale = protected_anew(url)
    with stood(url, stale) as connection:
        robbed(stale)
        execute(url, "UPDATE interlock.lease SET expires_at = '-infinity'")
        newer = granted(url)
        assert stand(connection, newer) == "standing"
        assert not stand_down(connection, stale)
        write(connection)
        assert committed(connection) == "committed"


def checked_early_it_keeps_thieves_out(url: str) -> None:
    """And lets the holder's renewals pass."""
    grant = protected_anew(url)
    with stood(url, grant) as connection:
        begin(connection)
        write(connection)
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        assert grant.renew() == "renewed"
        assert steal(grant) == "locked"
        assert committed(connection) == "committed"
    assert (steal(grant), notes(url)) == ("granted", ["a"])


def checked_early_after_a_savepoint_it_is_checked_again(url: str) -> None:
    """A rollback to it takes the lock back, and leaves the rows from before it."""
    for level in LEVELS:
        for others in (0, 1, 2):
            grant = protected_anew(url)
            with stood(url, grant) as connection:
                with ExitStack() as stack:
                    for _ in range(others):
                        guard(stack.enter_context(begun(url)), grant)
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
            with stood(url, grant) as connection, ExitStack() as stack:
                for _ in range(others):
                    guard(stack.enter_context(begun(url)), grant)
                begin(connection)
                connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
                connection.execute("SAVEPOINT here")
                write(connection)
                connection.execute(end)
                write(connection, "b")
                stack.close()
                assert steal(grant) == "locked", (others, end)
                assert committed(connection) == "committed", (others, end)
            assert notes(url) == ["a", "b"]


def what_was_locked_is_good_to_the_end(url: str) -> None:
    """Also for rows that are written after the lease is over, whoever else guards."""
    for loss in (expire, Grant.release):
        for others in (0, 1, 2):
            grant = protected_anew(url)
            with stood(url, grant) as connection, ExitStack() as stack:
                for _ in range(others):
                    guard(stack.enter_context(begun(url)), grant)
                begin(connection)
                write(connection)
                connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
                loss(grant)
                assert _written(connection, "b") == "written", (loss, others)
                assert committed(connection) == "committed", (loss, others)
            assert notes(url) == ["a", "b"]


def _written(connection: psycopg.Connection, note: str) -> str:
    try:
        write(connection, note)
    except psycopg.Error as error:
        return error.sqlstate or "no code"
    return "written"
