"""Many leases in one statement: each gets the same answer as alone, and no name delays another."""

from uuid import uuid4

import pytest

from support.protocol import LISTENER, Client, queue
from support.sql_leases import row, set_clock


def statuses(answers: object) -> list[str]:
    return [answer.status for answer in answers]  # type: ignore[attr-defined]


def test_each_request_gets_its_own_answer_in_its_own_place(interlock_url: str, first: Client, second: Client) -> None:
    first.run("SELECT interlock.register_v1('{free, held, guarded, mine}')")
    mine = second.ask("mine")
    first.acquire("held")
    guarded = first.acquire("guarded")
    with Client(interlock_url, "guard") as guard, guard.connection.transaction():
        guard.guard(guarded)
        first.release(guarded)
        names = ["mine", "guarded", "unused", "held", "free"]
        ids = [mine.grant_id, uuid4(), uuid4(), uuid4(), uuid4()]
        answers = second.ask_many(names, grant_ids=ids)
    assert statuses(answers) == ["granted", "locked", "unknown", "busy", "granted"]
    assert answers[0].token == mine.token
    assert [answer.retry_after for answer in answers[:3]] == [None, 0.02, 0]
    assert answers[3].held_by == "first"


def test_of_several_requests_for_one_name_the_first_gets_it(first: Client) -> None:
    first.run("SELECT interlock.register_v1('{a,b}')")
    answers = first.ask_many(["b", "a", "a", "b", "a"])
    assert statuses(answers) == ["granted", "granted", "busy", "busy", "busy"]


def test_waiters_queue_in_the_order_of_the_batch(interlock_url: str, first: Client, listening: Client) -> None:
    first.run("SELECT interlock.register_v1('{feeds}')")
    winner, *waiters = first.ask_many(["feeds"] * 4, wait=True, listener=LISTENER)
    assert statuses(waiters) == ["busy"] * 3
    assert queue(interlock_url, "feeds") == [(waiter.grant_id, False) for waiter in waiters]
    assert first.release(winner) == "released"
    assert listening.notified() == [waiters[0].grant_id]


@pytest.mark.parametrize("is_held", [True, False])
def test_a_request_that_is_in_a_batch_twice_is_one_request(
    interlock_url: str, first: Client, second: Client, is_held: bool
) -> None:
    held = first.acquire("feeds")
    if not is_held:
        first.release(held)
    twice = uuid4()
    answers = second.ask_many(["feeds", "feeds"], grant_ids=[twice, twice], wait=True)
    assert statuses(answers) == (["busy"] * 2 if is_held else ["granted"] * 2)
    assert answers[0].token == answers[1].token
    assert len(queue(interlock_url, "feeds")) == is_held


@pytest.mark.parametrize("lock", ["FOR UPDATE", "FOR NO KEY UPDATE", "FOR SHARE", "FOR KEY SHARE"])
def test_a_locked_row_delays_no_other(interlock_url: str, first: Client, second: Client, lock: str) -> None:
    first.run("SELECT interlock.register_v1('{a,b,c}')")
    with second.connection.transaction():
        second.run(f"SELECT FROM interlock.lease WHERE name = 'b' {lock}")
        answers = first.ask_many(["c", "b", "a"])
        assert statuses(answers) == ["granted", "locked", "granted"]
    assert first.ask("b").status == "granted"


def test_renewals_and_releases_of_a_batch_skip_a_locked_row(interlock_url: str, first: Client, second: Client) -> None:
    set_clock(interlock_url, 0)
    first.run("SELECT interlock.register_v1('{a,b,c}')")
    grants = first.ask_many(["c", "b", "a"], ttl=30)
    with second.connection.transaction():
        second.run("SELECT FROM interlock.lease WHERE name = 'b' FOR UPDATE")
        set_clock(interlock_url, 10)
        assert first.renew_many(grants, ttl=30) == ([], [2])
        assert first.release_many(grants) == ["released", "locked", "released"]
    assert first.renew_many(grants) == ([1, 3], [])
    assert first.release_many(grants) == ["lost", "released", "lost"]


def test_a_renewal_does_not_change_the_transactions_lock_timeout(first: Client, second: Client) -> None:
    held = first.acquire("feeds")

    def renewed() -> tuple[str, str]:
        with first.connection.transaction():
            first.run("SET LOCAL lock_timeout = '7s'")
            return first.renew(held), first.run("SHOW lock_timeout")[0][0]

    assert renewed() == ("renewed", "7s")
    with second.connection.transaction():
        second.run("SELECT FROM interlock.lease WHERE name = 'feeds' FOR UPDATE")
        assert renewed() == ("locked", "7s")


def test_renewals_of_a_batch_do_not_wait_for_a_guard(interlock_url: str, first: Client, second: Client) -> None:
    first.run("SELECT interlock.register_v1('{a,b}')")
    grants = first.ask_many(["a", "b"])
    with second.connection.transaction():
        second.guard(grants[0])
        assert first.renew_many(grants) == ([], [])
        assert first.release_many(grants) == ["released", "released"]


def test_a_batch_that_is_renewed_again_reports_the_lost_grants(interlock_url: str, first: Client) -> None:
    first.run("SELECT interlock.register_v1('{a,b,c}')")
    a, b, c = first.ask_many(["a", "b", "c"])
    first.release(b)
    before = row(interlock_url, "b")
    assert first.renew_many([a, b, c, b, a]) == ([2, 4], [])
    assert row(interlock_url, "b") == before


def test_concurrent_batches_add_a_name_only_once(interlock_url: str, first: Client) -> None:
    first.run("SELECT interlock.register_v1('{b,a,b}')")
    held = first.acquire("a")
    first.run("SELECT interlock.register_v1('{a,c}')")
    assert first.run("SELECT name FROM interlock.lease ORDER BY name") == [("a",), ("b",), ("c",)]
    assert row(interlock_url, "a").token == held.token


def test_only_leases_with_waiters_are_handed_over(interlock_url: str, first: Client, second: Client) -> None:
    first.run("SELECT interlock.register_v1('{a,b}')")
    grants = first.ask_many(["a", "b"])
    second.wait("b")
    assert first.release_many(grants, if_waited=True) == ["kept", "released"]
    assert first.renew(grants[0]) == "renewed"
    assert second.ask("a").status == "busy"
