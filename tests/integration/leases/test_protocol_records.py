"""Records: written only while a grant is current, which the statement itself decides. And the list of held leases."""

from uuid import uuid4

import psycopg
import pytest

from support.leases import expire, granted, steal
from support.postgres import execute
from support.sql_leases import ask, release

WRITE = "SELECT interlock.write_record_v1(%s, %s, %s, %s, %s)"
READ = "SELECT key, token, value FROM interlock.read_record_v1(%s)"
HELD = "SELECT name FROM interlock.held_v1(%s)"


def write(url: str, key: str, value: str, triple: tuple[object, ...]) -> bool:
    return bool(execute(url, WRITE, key, value, *triple)[0][0])


def test_a_record_is_written_read_and_replaced(interlock_url: str) -> None:
    grant = granted(interlock_url)
    assert execute(interlock_url, READ, "k") == []
    assert write(interlock_url, "k", '{"b": 1,  "a": "\\u0000"}', grant.triple)
    assert execute(interlock_url, READ, "k") == [("k", grant.token, '{"b": 1,  "a": "\\u0000"}')]
    assert write(interlock_url, "k", "2", grant.triple)
    assert execute(interlock_url, READ, "k") == [("k", grant.token, "2")]
    [[age]] = execute(
        interlock_url,
        "SELECT extract(epoch FROM interlock.now_v1())::float - written_at FROM interlock.read_record_v1('k')",
    )
    assert 0 <= age < 60


def test_a_wrong_grant_writes_nothing(interlock_url: str) -> None:
    name, token, grant_id = granted(interlock_url).triple
    for wrong in [("other", token, grant_id), (name, token + 1, grant_id), (name, token, uuid4())]:
        assert not write(interlock_url, "k", "1", wrong)
    assert execute(interlock_url, READ, "k") == []


def test_a_lost_or_released_grant_writes_nothing(interlock_url: str) -> None:
    grant = granted(interlock_url)
    expire(grant)
    assert not write(interlock_url, "k", "1", grant.triple), "although it is free"
    stolen = ask(interlock_url, grant.name, ttl=30)
    assert stolen.status == "granted"
    assert not write(interlock_url, "k", "1", grant.triple)
    assert write(interlock_url, "k", "2", stolen.triple)
    release(interlock_url, stolen)
    assert not write(interlock_url, "k", "3", stolen.triple)
    assert execute(interlock_url, READ, "k") == [("k", stolen.token, "2")]


def test_the_next_grant_waits_for_a_record_that_is_being_written(interlock_url: str) -> None:
    grant = granted(interlock_url)
    with psycopg.connect(interlock_url) as connection:
        assert connection.execute(WRITE, ["k", "1", *grant.triple]).fetchone() == (True,)
        assert grant.renew() == "renewed"
        assert steal(grant) == "locked"
    assert steal(grant) == "granted"


@pytest.mark.parametrize("bad", ["{", ""])
def test_a_value_that_is_not_json_is_refused(interlock_url: str, bad: str) -> None:
    with pytest.raises(psycopg.errors.InvalidTextRepresentation):
        write(interlock_url, "k", bad, granted(interlock_url).triple)
    with pytest.raises(psycopg.errors.CheckViolation):
        write(interlock_url, "k" * 256, "1", granted(interlock_url, "other").triple)


def test_held_leases_are_listed_by_the_prefix_of_their_name(interlock_url: str) -> None:
    names = ["a", "a#", "a##slot/1", "a##slot/10", "a##slot/2", "a##slot0", "a##slotx", "b", "Ä", "äß", "~"]
    for name in names:
        granted(interlock_url, name)
    broken = granted(interlock_url, "a##slot/3")
    execute(interlock_url, "SELECT interlock.break_v1('a##slot/3', false, false, 'a', 'test')")
    freed = granted(interlock_url, "a##slot/4")
    freed.release()

    def held(prefix: str) -> list[str]:
        return [name for (name,) in execute(interlock_url, HELD, prefix)]

    in_order = sorted(names, key=str.encode)
    assert held("") == in_order
    for prefix in ["a", "a#", "a##slot/", "a##slot", "b", "Ä", "ä", "~", "nothing", "a##slot/1"]:
        assert held(prefix) == [name for name in in_order if name.startswith(prefix)], prefix
    assert broken.name not in held("a")


def test_the_index_serves_the_list(interlock_url: str) -> None:
    """A semaphore lists its slots at each attempt, and there may be a hundred thousand other leases."""
    execute(
        interlock_url,
        "INSERT INTO interlock.lease (name, token, grant_id, acquired_at, expires_at)"
        " SELECT 'other/' || n, n, gen_random_uuid(), now(), 'infinity' FROM generate_series(1, 20000) AS n",
    )
    granted(interlock_url, "openai##slot/1")
    execute(interlock_url, "ANALYZE interlock.lease")
    with psycopg.connect(interlock_url, autocommit=True) as connection:
        connection.execute("BEGIN")
        assert connection.execute(HELD, ["openai##slot/"]).fetchall() == [("openai##slot/1",)]
        read = connection.execute("SELECT pg_stat_get_xact_tuples_returned('interlock.lease'::regclass)").fetchone()
        connection.execute("COMMIT")
    assert read is not None
    assert read[0] < 100
