"""The cost of a call for the server: no write without a change, no scan of a table, no full read of a queue."""

from collections.abc import Callable, Iterator
from functools import partial
from uuid import uuid4

import pytest

from support.plans import plans
from support.postgres import execute
from support.protocol import DIRECTLY, LISTENER, RENEW_MANY, Client, columns, counted, queue

READS = """
    SELECT relname, seq_scan, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
      FROM pg_stat_xact_user_tables WHERE schemaname = 'interlock' AND relname IN ('lease', 'waiter')
"""
LOOKS = "SELECT pg_stat_get_xact_numscans('interlock.lease_pkey'::regclass)"


def writes(client: Client, work: Callable[[], object]) -> bool:
    """True if the transaction has a number, as every transaction has that writes or locks a row."""
    with client.connection.transaction():
        work()
        return client.run("SELECT pg_current_xact_id_if_assigned() IS NOT NULL") == [(True,)]


def reads(client: Client, work: Callable[[], object]) -> dict[str, tuple[int, int]]:
    """Returns for each table the number of full scans and of rows read."""

    def counted() -> dict[str, tuple[int, int]]:
        return {name: (scans, rows) for name, scans, rows in client.run(READS)}

    with client.connection.transaction():
        before = counted()
        work()
        after = counted()
    return {name: (after[name][0] - before[name][0], after[name][1] - before[name][1]) for name in after}


def test_a_failed_try_writes_nothing(first: Client, second: Client, third: Client, listening: Client) -> None:
    names = [f"lease {number}" for number in range(50)]
    first.run("SELECT interlock.register_v1(%s)", names)
    first.ask_many(names)
    waited_for = first.acquire("waited for")
    third.wait("waited for", listener=LISTENER)
    third.wait("lease 0", listener=8)
    first.release(waited_for)
    guarded = first.acquire("guarded")
    with third.connection.transaction():
        third.guard(guarded)
        first.release(guarded)
        assert not writes(
            second, lambda: [second.ask(name) for name in ("lease 0", "lease 1", "waited for", "guarded")]
        )
        assert not writes(second, lambda: second.ask_many([*names, "waited for", "guarded", "unknown"]))
    assert writes(second, lambda: second.ask("guarded"))


def test_a_lost_renewal_and_a_lost_release_write_nothing(first: Client, second: Client) -> None:
    held = first.acquire("feeds")
    stale = held._replace(token=held.token - 1)
    assert not writes(second, lambda: second.renew(stale))
    assert not writes(second, lambda: second.release(stale))
    assert not writes(second, lambda: second.release_many([held], if_waited=True))
    assert writes(second, lambda: second.renew(held))


def test_a_renewal_writes_each_lease_once(first: Client) -> None:
    """Heartbeats are the largest part of the log of a database with leases."""
    names = [f"lease {number}" for number in range(200)]
    first.run("SELECT interlock.register_v1(%s)", names)
    held = first.ask_many(names)
    _, tokens, grant_ids = columns(held)
    [[[plan]]] = first.run(
        f"EXPLAIN (ANALYZE, WAL, FORMAT JSON) {RENEW_MANY}", tokens, grant_ids, names, [30.0] * len(held)
    )
    assert len(held) <= plan["Plan"]["WAL Records"] < 1.5 * len(held)  # pages are pruned now and then


@pytest.fixture
def with_many_leases(request: pytest.FixtureRequest, interlock_url: str) -> Iterator[Client]:
    """A client of a database with so many leases, without statistics, or with those of an empty table."""
    execute(interlock_url, "ALTER TABLE interlock.lease SET (autovacuum_enabled = off)")
    execute(interlock_url, "ALTER TABLE interlock.waiter SET (autovacuum_enabled = off)")
    if request.param > 10:
        execute(interlock_url, "ANALYZE interlock.lease")
    fill = "INSERT INTO interlock.lease (name, token) SELECT n, 0 FROM generate_series(0, %s - 1) AS n"
    execute(interlock_url, fill, request.param)
    with Client(interlock_url, "with_many_leases") as client:
        yield client


def everything(client: Client, one: str, *several: str) -> None:
    """Call each function once, except those of operators."""
    held = client.acquire(one)
    assert client.ask(one).status == "busy"
    assert client.ask(f"new {uuid4()}").status == "granted"
    waiter = client.wait(one, listener=LISTENER)
    client.guard(held)
    assert (client.renew(held), client.release(held)) == ("renewed", "released")
    assert client.wait(one, listener=LISTENER, grant_id=waiter.grant_id).status == "granted"
    client.abandon(client.wait(one, listener=LISTENER))
    grants = client.ask_many(several, wait=True, listener=LISTENER)
    client.ask_many(several, wait=True, listener=LISTENER)
    assert client.renew_many(grants) == ([], [])
    assert client.release_many(grants, if_waited=True) == ["released"] * len(several)
    assert len(client.break_open(one, immediate=True)) == 1
    client.run("SELECT interlock.register_v1(%s)", list(several))


@pytest.mark.parametrize("with_many_leases", [10, 1_000, 100_000], indirect=True)
def test_no_call_scans_a_table_however_many_leases_there_are(with_many_leases: Client, listening: Client) -> None:
    for names in ("31425", "80796"):  # the second time with cached plans
        seen = reads(with_many_leases, partial(everything, with_many_leases, *names))
        assert {table: scans for table, (scans, _) in seen.items()} == {"lease": 0, "waiter": 0}
        assert max(rows for _, rows in seen.values()) < 250


@pytest.mark.parametrize("with_many_leases", [10, 100_000], indirect=True)
def test_no_statement_is_so_expensive_that_the_server_would_compile_it(
    with_many_leases: Client, listening: Client
) -> None:
    with plans(with_many_leases.connection) as found:
        everything(with_many_leases, *"31425")
        held = with_many_leases.acquire("6")
        waiter = with_many_leases.wait("6", listener=LISTENER, direct=True)
        assert with_many_leases.hand_over(held).offered == waiter.grant_id
        held = with_many_leases.acquire("7")
        with_many_leases.run("SELECT interlock.write_record_v1('7', '1', %s, %s, %s)", *held.triple)
        with_many_leases.run("SELECT interlock.read_record_v1('7'), interlock.forget_records_v1('8', 60)")
        with_many_leases.run("SELECT interlock.wanted_v1('7'), interlock.held_v1('7')")
    for table in ("lease", "lease_epoch", "waiter"):
        assert any(f" on {table} " in plan for plan in found), table
    assert found.too_long(with_many_leases.connection) == []


def acquired(first: Client, second: Client) -> Callable[[], object]:
    first.release(first.acquire("feeds"))
    return lambda: second.acquire("feeds")


def released(first: Client, second: Client) -> Callable[[], object]:
    held = first.acquire("feeds")
    return lambda: second.release(held)


def released_to_the_waiter(first: Client, second: Client) -> Callable[[], object]:
    held = first.acquire("feeds")
    first.wait("feeds", listener=LISTENER)
    return lambda: second.release(held)


def handed_over(first: Client, second: Client) -> Callable[[], object]:
    held = first.acquire("feeds")
    waiter = first.wait("feeds", listener=LISTENER, direct=True)

    def work() -> None:
        assert second.run(DIRECTLY, *held.triple) == [(waiter.grant_id,)]

    return work


@pytest.mark.parametrize("step", [acquired, released, released_to_the_waiter, handed_over])
def test_the_row_of_a_lease_is_searched_once(
    first: Client, second: Client, listening: Client, step: Callable[[Client, Client], Callable[[], object]]
) -> None:
    """Each search passes all versions of the row that an old snapshot keeps."""
    assert counted(second, LOOKS, step(first, second)) == 1


@pytest.mark.parametrize("statistics", ["none", "of an empty queue", "of the whole queue"])
def test_a_long_queue_is_not_read_completely(
    interlock_url: str, first: Client, second: Client, listening: Client, statistics: str
) -> None:
    first.run("ALTER TABLE interlock.waiter SET (autovacuum_enabled = off)")
    first.run("SELECT interlock.register_v1('{feeds}')")
    held = first.acquire("feeds")
    if statistics == "of an empty queue":
        first.run("ANALYZE interlock.waiter")
    waiters = second.ask_many(["feeds"] * 2_000, wait=True, listener=LISTENER)
    if statistics == "of the whole queue":
        first.run("ANALYZE interlock.waiter")
    steps: list[Callable[[], object]] = [
        lambda: second.ask("feeds"),
        lambda: second.ask_many(["feeds"]),
        lambda: second.wait("feeds", listener=LISTENER, grant_id=waiters[1000].grant_id),
        lambda: second.ask_many(["feeds"], wait=True, listener=LISTENER, grant_ids=[waiters[1000].grant_id]),
        lambda: second.release(held),
        lambda: second.ask("feeds"),
        lambda: second.abandon(waiters[0]),
        lambda: second.wait("feeds", listener=LISTENER, grant_id=waiters[1000].grant_id),
        lambda: second.wait("feeds", listener=LISTENER, grant_id=waiters[1].grant_id),
    ]
    assert max(reads(second, step)["waiter"][1] for step in steps) < 20
    assert len(queue(interlock_url, "feeds")) == 1998


@pytest.mark.parametrize(("set_to", "becomes"), [("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")])
def test_grants_and_renewals_wait_for_the_disk_with_any_setting_of_the_role(
    interlock_url: str, set_to: str, becomes: str
) -> None:
    with Client(interlock_url, "careless", options=f"-c synchronous_commit={set_to}") as careless:

        def meanwhile(work: Callable[[], object]) -> str:
            with careless.connection.transaction():
                work()
                return str(careless.run("SHOW synchronous_commit")[0][0])

        held = careless.acquire("feeds")
        assert meanwhile(lambda: careless.ask("free")) == becomes
        assert meanwhile(lambda: careless.ask_many(["other", "free"])) == set_to
        careless.run("SELECT interlock.register_v1('{other}')")
        assert meanwhile(lambda: careless.ask_many(["other", "free"])) == becomes
        assert meanwhile(lambda: careless.ask("feeds")) == set_to
        assert meanwhile(lambda: careless.renew(held)) == becomes
        assert meanwhile(lambda: careless.release(held)) == set_to
        assert careless.run("SHOW synchronous_commit") == [(set_to,)]


def test_a_release_never_makes_the_users_transaction_less_durable(first: Client) -> None:
    first.run("SET synchronous_commit = on")
    held, other = first.acquire("feeds"), first.acquire("other")
    with first.connection.transaction():
        first.release(held)
        first.release_many([other])
        assert first.run("SHOW synchronous_commit") == [("on",)]


def test_a_release_in_the_users_transaction_counts_when_that_commits(first: Client, second: Client) -> None:
    held = first.acquire("feeds")
    first.run("BEGIN")
    assert first.release(held) == "released"
    assert second.ask("feeds").status == "busy"
    first.run("ROLLBACK")
    assert second.ask("feeds").status == "busy"
    assert first.renew(held) == "renewed"
    with first.connection.transaction():
        first.release(held)
    assert second.ask("feeds").status == "granted"
