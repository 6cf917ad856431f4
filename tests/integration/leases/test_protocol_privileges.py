"""The privileges of a role that may use leases, and attempts to gain more by objects of its own."""

from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from interlock.schema import Use, grant_sql
from support.postgres import execute
from support.protocol import LISTENER, Client

DEFINERS = "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'interlock'::regnamespace AND prosecdef"


def role_of(url: str) -> str:
    return f"web_of_{urlsplit(url).path.lstrip('/')}"


def as_role(url: str, *uses: Use) -> str:
    """Returns the URL of the same database for a role with those grants only."""
    role = role_of(url)
    execute(url, f"CREATE ROLE {role} LOGIN PASSWORD 'geheim'")
    if uses:
        execute(url, grant_sql(role, "interlock", uses))
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{role}:geheim@{parts.hostname}:{parts.port}"))


@pytest.fixture
def user(interlock_url: str) -> Iterator[Client]:
    """A role that may use leases."""
    with Client(as_role(interlock_url, "leases"), "user") as client:
        yield client


def use_everything(client: Client, listening: Client) -> None:
    held = client.acquire("feeds")
    assert client.ask("feeds").status == "busy"
    assert client.ask("feeds", grant_id=held.grant_id).status == "granted"
    assert client.renew(held) == "renewed"
    with client.connection.transaction():
        client.guard(held)
    waiter, leaver = client.wait("feeds", listener=LISTENER), client.wait("feeds", listener=LISTENER)
    client.abandon(leaver)
    assert client.release(held) == "released"
    assert listening.notified() == [waiter.grant_id]
    held = client.wait("feeds", listener=LISTENER, grant_id=waiter.grant_id)
    waiter = client.wait("feeds", listener=LISTENER, direct=True)
    assert client.hand_over(held).offered == waiter.grant_id
    held = client.wait("feeds", listener=LISTENER, grant_id=waiter.grant_id)
    client.run("SELECT interlock.register_v1('{a,b}')")
    grants = client.ask_many(["a", "b"], wait=True, listener=LISTENER)
    assert client.renew_many(grants) == ([], [])
    assert client.release_many([*grants, held]) == ["released"] * 3
    assert client.run("SELECT count(*) FROM interlock.leases_v1()") == [(3,)]
    assert client.run("SELECT count(*) FROM interlock.waiters_v1('feeds')") == [(0,)]
    assert client.run("SELECT count(*) FROM interlock.guards_v1('feeds')") == [(0,)]
    assert client.run("SELECT count(*) FROM interlock.offer_v1('{feeds}', NULL)") == [(0,)]
    assert client.run("SELECT interlock.sweep_v1(1000)") == [(0,)]
    held = client.acquire("feeds")
    assert client.run("SELECT name FROM interlock.held_v1('fe')") == [("feeds",)]
    assert client.run("SELECT interlock.write_record_v1('k', '{}', %s, %s, %s)", *held.triple) == [(True,)]
    assert client.run("SELECT key, value FROM interlock.read_record_v1('k')") == [("k", "{}")]
    assert client.run("SELECT interlock.forget_records_v1('bill:', 1000)") == [(0,)]
    assert client.run("SELECT interlock.listen_v1(8)") == [(True,)]


def test_a_role_with_the_grant_for_leases_can_use_the_whole_protocol(user: Client, listening: Client) -> None:
    use_everything(user, listening)


FORBIDDEN = [
    *(f"SELECT FROM interlock.{table}" for table in ("lease", "waiter", "lease_epoch", "lease_intervention", "record")),
    "INSERT INTO interlock.record (key, token, value, written_at) VALUES ('k', 0, '{}', now())",
    "DELETE FROM interlock.record",
    "UPDATE interlock.lease SET token = 0",
    "DELETE FROM interlock.waiter",
    "INSERT INTO interlock.lease (name, token) VALUES ('feeds', 0)",
    "UPDATE interlock.lease_epoch SET token_floor = 0",
    "SELECT FROM interlock.gate_run",
    "SELECT interlock.break_v1('feeds', true, true, 'why not', 'me')",
    "CREATE FUNCTION interlock.own() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "CREATE OR REPLACE FUNCTION interlock.now_v1() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'",
    "ALTER FUNCTION interlock.release_v1 SET search_path = public",
    "TRUNCATE interlock.lease",
    "DROP TABLE interlock.lease",
]


@pytest.mark.exhaustive(beyond=6)
@pytest.mark.parametrize("statement", FORBIDDEN)
def test_it_can_do_nothing_else(user: Client, statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        user.run(statement)


def test_an_operator_may_also_break_leases(interlock_url: str) -> None:
    with Client(as_role(interlock_url, "leases", "operations"), "operator") as operator:
        operator.acquire("feeds")
        assert len(operator.break_open("feeds", immediate=True)) == 1
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            operator.run("DELETE FROM interlock.lease_intervention")


def test_a_role_without_grants_cannot_call_functions_that_act_for_the_owner(interlock_url: str) -> None:
    url = as_role(interlock_url)
    execute(interlock_url, f"GRANT USAGE ON SCHEMA interlock TO {role_of(interlock_url)}")
    with Client(url, "without grants") as client:
        may = (
            f"SELECT count(*), count(*) FILTER (WHERE has_function_privilege(f, 'EXECUTE')) FROM ({DEFINERS}) AS d (f)"
        )
        [[there, allowed]] = client.run(may)
        assert there > 10
        assert allowed == 0
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            client.ask("feeds")


def test_functions_that_act_for_the_owner_search_only_the_owners_schemas(interlock_url: str) -> None:
    """`pg_temp` is named, as the last: if it is not named, it is searched first."""
    paths = "SELECT proconfig FROM pg_proc WHERE pronamespace = 'interlock'::regnamespace AND prosecdef"
    found = execute(interlock_url, paths)
    assert found
    assert all("search_path=pg_catalog, pg_temp" in (settings or ()) for (settings,) in found)


TRAP = "LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'trapped'; END $$"
TRAPS = [
    f"CREATE FUNCTION own.now_v1() RETURNS timestamptz {TRAP}",
    f"CREATE FUNCTION own.waits_v1(integer, timestamptz, timestamptz, timestamptz) RETURNS boolean {TRAP}",
    f"CREATE FUNCTION own.clock_timestamp() RETURNS timestamptz {TRAP}",
    f"CREATE FUNCTION own.unnest(text[]) RETURNS SETOF text {TRAP}",
    f"CREATE FUNCTION own.cardinality(text[]) RETURNS integer {TRAP}",
    f"CREATE FUNCTION own.current_setting(text) RETURNS text {TRAP}",
    f"CREATE FUNCTION own.set_config(text, text, boolean) RETURNS text {TRAP}",
    f"CREATE FUNCTION own.hashtext(text) RETURNS integer {TRAP}",
    f"CREATE FUNCTION own.pg_notify(text, text) RETURNS void {TRAP}",
    f"CREATE FUNCTION own.pg_advisory_xact_lock(integer, integer) RETURNS void {TRAP}",
    f"CREATE FUNCTION own.pg_try_advisory_xact_lock_shared(integer, integer) RETURNS boolean {TRAP}",
    f"CREATE FUNCTION own.same(text, text) RETURNS boolean {TRAP}",
    "CREATE OPERATOR own.= (LEFTARG = text, RIGHTARG = text, FUNCTION = own.same)",
    f"CREATE FUNCTION own.same(bigint, bigint) RETURNS boolean {TRAP}",
    "CREATE OPERATOR own.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = own.same)",
    f"CREATE FUNCTION own.same(uuid, uuid) RETURNS boolean {TRAP}",
    "CREATE OPERATOR own.= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = own.same)",
    f"CREATE FUNCTION own.before(timestamptz, timestamptz) RETURNS boolean {TRAP}",
    "CREATE OPERATOR own.<= (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = own.before)",
    "CREATE OPERATOR own.> (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = own.before)",
    "CREATE TABLE own.lease (name text, token bigint, grant_id uuid, expires_at timestamptz)",
    "CREATE TEMPORARY TABLE lease (name text, token bigint, grant_id uuid, expires_at timestamptz)",
    "CREATE TEMPORARY TABLE waiter (name text)",
    "CREATE TEMPORARY TABLE pg_locks (pid integer)",
    "CREATE FUNCTION pg_temp.now_v1() RETURNS timestamptz LANGUAGE sql AS 'SELECT timestamptz ''-infinity'''",
    "CREATE DOMAIN pg_temp.xid AS integer",
    "CREATE DOMAIN pg_temp.timestamptz AS text",
]


def test_a_role_cannot_change_the_functions_by_objects_of_its_own(
    interlock_url: str, user: Client, listening: Client
) -> None:
    execute(interlock_url, f"CREATE SCHEMA own AUTHORIZATION {role_of(interlock_url)}")
    for trap in TRAPS:
        user.run(trap)
    user.run("SET search_path = own, pg_temp, interlock, pg_catalog")
    with pytest.raises(psycopg.errors.RaiseException, match="trapped"):
        user.run("SELECT 'a'::text = 'a'::text")
    user.run("SET search_path = pg_temp, own, pg_catalog")
    use_everything(user, listening)
