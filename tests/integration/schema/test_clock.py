"""The clock that all replicas use: the database's, which only its owner can move."""

from datetime import datetime

import psycopg
import pytest

from support.postgres import execute

TELL = "SELECT interlock.now_v1() BETWEEN %s AND clock_timestamp()"


def test_a_session_sees_the_servers_time(interlock_url: str) -> None:
    before = execute(interlock_url, "SELECT clock_timestamp()")[0][0]
    assert execute(interlock_url, TELL, before) == [(True,)]


def test_time_goes_on_within_a_transaction(interlock_url: str) -> None:
    with psycopg.connect(interlock_url) as connection:
        moments = [connection.execute("SELECT interlock.now_v1()").fetchone() for _ in range(2)]
    assert moments[0] != moments[1]


def test_a_test_moves_it_by_another_body(interlock_url: str) -> None:
    execute(
        interlock_url,
        "CREATE OR REPLACE FUNCTION interlock.now_v1() RETURNS timestamptz LANGUAGE sql"
        " AS $$ SELECT timestamptz '2031-01-01 00:00Z' $$",
    )
    assert execute(interlock_url, "SELECT interlock.now_v1()") == [(datetime.fromisoformat("2031-01-01T00:00Z"),)]


@pytest.mark.parametrize(
    "setting",
    [
        "SET timezone = 'Pacific/Kiritimati'",
        "SET interlock.now = '2031-01-01'",
        "SET search_path = pretending, pg_catalog",
    ],
)
def test_a_session_cannot_move_it_by_a_setting(interlock_url: str, setting: str) -> None:
    before = execute(interlock_url, "SELECT clock_timestamp()")[0][0]
    with psycopg.connect(interlock_url) as connection:
        connection.execute("CREATE SCHEMA pretending")
        connection.execute(
            "CREATE FUNCTION pretending.clock_timestamp() RETURNS timestamptz LANGUAGE sql"
            " AS $$ SELECT timestamptz '2031-01-01 00:00Z' $$"
        )
        connection.execute(setting)
        told = connection.execute("SELECT interlock.now_v1()").fetchone()
    assert told is not None
    assert before < told[0] < execute(interlock_url, "SELECT clock_timestamp()")[0][0]
