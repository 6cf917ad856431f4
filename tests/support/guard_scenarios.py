"""Scenarios that a guard has to withstand, as functions: tests run them, and again on broken variants.

Each takes the URL of a database with Interlock's schema, and fails if the guard does not keep its promise. The
transactions of `begun` take their snapshot before anything else happens, which matters at the higher isolation levels.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from support.leases import Grant, break_open, expire, granted, steal, steal_in_a_batch
from support.postgres import execute
from support.sql_leases import ask

READ_LEVELS = ("READ COMMITTED", "READ UNCOMMITTED")
SNAPSHOT_LEVELS = ("REPEATABLE READ", "SERIALIZABLE")
LEVELS = (*SNAPSHOT_LEVELS, "READ COMMITTED")

Scenario = Callable[[str], None]


def guard(connection: psycopg.Connection, grant: Grant) -> None:
    connection.execute("SELECT interlock.guard_v1(%s, %s, %s)", grant.triple)


def verdict(connection: psycopg.Connection, grant: Grant) -> str:
    """The SQLSTATE with which the guard fails, or `passed`."""
    try:
        guard(connection, grant)
    except psycopg.Error as error:
        return error.sqlstate or "no code"
    return "passed"


def write(connection: psycopg.Connection, note: str = "a") -> None:
    connection.execute("INSERT INTO notes VALUES (%s)", [note])


def prepare(url: str) -> Grant:
    execute(url, "CREATE TABLE IF NOT EXISTS notes (note text)")
    return granted(url)


@contextmanager
def begun(url: str, level: str = "READ COMMITTED") -> Iterator[psycopg.Connection]:
    """A connection in a transaction whose snapshot is taken now. It is rolled back unless the test commits it."""
    with psycopg.connect(url) as connection:
        connection.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        connection.execute("SELECT count(*) FROM notes")
        yield connection
        if not connection.closed:
            connection.rollback()


def notes(url: str) -> list[str]:
    return [note for (note,) in execute(url, "SELECT note FROM notes ORDER BY note")]


def after(url: str, happens: Callable[[Grant], object], level: str) -> str:
    """The result of a transaction during which something happens to its lease: the guard's verdict, or `wrote`."""
    grant = prepare(url)
    with begun(url, level) as connection:
        write(connection)
        happens(grant)
        if (code := verdict(connection, grant)) != "passed":
            connection.rollback()
            assert notes(url) == []
            return code
        connection.commit()
    assert notes(url) == ["a"]
    return "wrote"


def robbed(grant: Grant) -> None:
    assert steal(grant) == "granted"


def robbed_in_a_batch(grant: Grant) -> None:
    assert steal_in_a_batch(grant) == "granted"


def renewed_and_robbed(grant: Grant) -> None:
    assert [grant.renew(), grant.renew()] == ["renewed", "renewed"]
    robbed(grant)


def released_and_taken(grant: Grant) -> None:
    assert grant.release() == "released"
    assert ask(grant.url, grant.name, ttl=30).status == "granted"


def broken_and_taken(grant: Grant) -> None:
    break_open(grant)
    assert ask(grant.url, grant.name, ttl=30).status == "granted"


def swept_away(grant: Grant) -> None:
    expire(grant)
    assert execute(grant.url, "SELECT interlock.sweep_v1(60)") == [(1,)]


def swept_away_and_taken(grant: Grant) -> None:
    swept_away(grant)
    assert ask(grant.url, grant.name, ttl=30).status == "granted"


def granted_to_another_with_the_same_token(grant: Grant) -> None:
    """As after the promotion of a standby that had not received the grant."""
    execute(grant.url, "UPDATE interlock.lease SET grant_id = gen_random_uuid()")


LOSSES = (
    robbed,
    robbed_in_a_batch,
    renewed_and_robbed,
    released_and_taken,
    broken_and_taken,
    swept_away,
    swept_away_and_taken,
)


def stale_guards_never_commit(url: str) -> None:
    for level in LEVELS:
        for loss in LOSSES:
            expected = "IL001" if level in READ_LEVELS else "40001"
            assert after(url, loss, level) == expected, (level, loss)
            execute(url, "TRUNCATE interlock.lease")


def the_same_token_is_not_enough(url: str) -> None:
    for level in READ_LEVELS:
        assert after(url, granted_to_another_with_the_same_token, level) == "IL001"
        execute(url, "TRUNCATE interlock.lease")


def expired_leases_are_not_guarded(url: str) -> None:
    for level in READ_LEVELS:
        assert after(url, expire, level) == "IL001", level
        execute(url, "TRUNCATE interlock.lease")


def thieves_wait_for_the_commit(url: str) -> None:
    for level in LEVELS:
        for theft in (steal, steal_in_a_batch):
            _one_thief_waits(url, level, theft)
            execute(url, "TRUNCATE interlock.lease, notes")


def _one_thief_waits(url: str, level: str, theft: Callable[[Grant], str]) -> None:
    grant = prepare(url)
    with begun(url, level) as connection:
        assert grant.renew() == "renewed"
        guard(connection, grant)
        write(connection)
        assert theft(grant) == "locked", level
        connection.commit()
    assert (theft(grant), notes(url)) == ("granted", ["a"])


def renewals_and_the_release_pass_open_guards(url: str) -> None:
    for level in LEVELS:
        grant = prepare(url)
        with begun(url, level) as connection, begun(url, level) as another:
            assert grant.renew() == "renewed"
            guard(connection, grant)
            guard(another, grant)
            assert grant.renew() == "renewed", level
            guard(connection, grant)
            assert grant.release() == "released", level
            write(connection)
            connection.commit()
            another.commit()
        execute(url, "TRUNCATE interlock.lease")
    assert notes(url) == ["a"] * len(LEVELS)
