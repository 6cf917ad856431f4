"""No release is missed: if a lease is free and has a queue, a waiter has been notified.

Each test forces one order of two transactions on one queue, by stopping one of them between two statements. A waiter
that gets `changing` asks again at once, so it does not sleep.
"""

import pytest

from support.protocol import JUST_QUEUED, LISTENER, Answer, Client, meanwhile, queue, stopped
from support.sql_leases import set_clock


def settled(client: Client, answer: Answer) -> Answer:
    """Ask again while the answer is `changing`."""
    while answer.status == "changing":
        answer = client.wait(answer.name, listener=LISTENER, grant_id=answer.grant_id)
    return answer


def has_been_notified(url: str, listening: Client, answer: Answer) -> bool:
    was_told = queue(url, answer.name) == [(answer.grant_id, True)] and answer.grant_id in listening.notified()
    return answer.status == "granted" or was_told


def test_a_waiter_that_arrives_during_a_release_gets_changing(
    interlock_url: str, first: Client, second: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    at = {"function": "release_v1", "before": "status := 'released'"}
    with stopped(interlock_url, first, lambda: first.release(held), **at):
        early = second.wait("feeds", listener=LISTENER)
    assert (early.status, queue(interlock_url, "feeds")) == ("changing", [])
    assert settled(second, early).status == "granted"


@pytest.mark.parametrize(
    ("function", "before"),
    [
        (JUST_QUEUED["function"], JUST_QUEUED["before"]),
        ("acquire_many_v1", "WITH ahead"),
    ],
)
def test_a_release_waits_for_an_arriving_waiter_and_notifies_it(
    interlock_url: str, first: Client, second: Client, listening: Client, function: str, before: str
) -> None:
    def come() -> Answer:
        alone = function == "acquire_v1"
        return (
            second.wait("feeds", listener=LISTENER)
            if alone
            else second.ask_many(["feeds"], wait=True, listener=LISTENER)[0]
        )

    held = first.acquire("feeds")
    with (
        stopped(interlock_url, second, come, function=function, before=before) as coming,
        meanwhile(interlock_url, first, lambda: first.release(held), blocked=False) as releasing,
    ):
        coming.go()
    assert (coming.result().status, releasing.result()) == ("busy", "released")
    assert has_been_notified(interlock_url, listening, coming.result())


@pytest.mark.parametrize(
    ("function", "before"), [("release_v1", "UPDATE interlock.waiter w SET offered_at"), ("offer_v1", "RETURN QUERY")]
)
def test_a_waiter_that_leaves_while_it_is_notified_passes_the_notification_on(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client, function: str, before: str
) -> None:
    def release() -> object:
        return first.release(held) if function == "release_v1" else first.release_many([held])

    held = first.acquire("feeds")
    leaver, stayer = second.wait("feeds", listener=LISTENER), third.wait("feeds", listener=LISTENER)
    with (
        stopped(interlock_url, first, release, function=function, before=before) as releasing,
        meanwhile(interlock_url, second, lambda: second.abandon(leaver), blocked=False),
    ):
        releasing.go()
    assert has_been_notified(interlock_url, listening, stayer)


def test_a_release_during_a_departure_notifies_the_next(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    leaver, stayer = second.wait("feeds", listener=LISTENER), third.wait("feeds", listener=LISTENER)
    at = {"function": "abandon_many_v1", "before": "IF passed_on IS NOT NULL"}
    with (
        stopped(interlock_url, second, lambda: second.abandon(leaver), **at) as leaving,
        meanwhile(interlock_url, first, lambda: first.release(held), blocked=False),
    ):
        leaving.go()
    assert has_been_notified(interlock_url, listening, stayer)


def test_a_waiter_that_arrives_while_a_notification_is_passed_on_is_not_taken_for_dead(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    leaver = second.wait("feeds", listener=LISTENER)
    first.release(held)
    at = {"function": "offer_v1", "before": "WITH dead"}
    with stopped(interlock_url, second, lambda: second.abandon(leaver), **at):
        comer = third.wait("feeds", listener=LISTENER)
    assert has_been_notified(interlock_url, listening, settled(third, comer))


def test_a_waiter_that_arrives_while_a_lease_is_broken_gets_changing(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    first.acquire("feeds")
    at = {"function": "break_v1", "before": "RETURN QUERY SELECT lease.token"}
    with stopped(interlock_url, second, lambda: second.break_open("feeds", immediate=True), **at):
        comer = third.wait("feeds", listener=LISTENER)
    assert has_been_notified(interlock_url, listening, settled(third, comer))


def test_an_earlier_arrival_that_commits_late_keeps_its_position(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    """The lease is free and guarded, so each arriving waiter reads the queue and removes dead waiters."""
    held = first.acquire("feeds")
    at = {"function": "offer_v1", "before": "WITH dead"}
    with Client(interlock_url, "guard") as guard, guard.connection.transaction():
        guard.guard(held)
        first.release(held)
        set_clock(interlock_url, 10)
        with stopped(interlock_url, second, lambda: second.wait("feeds", listener=LISTENER), **at) as coming:
            set_clock(interlock_url, 9.5)
            earlier = third.wait("feeds", listener=LISTENER)
    in_order = [grant_id for grant_id, _ in queue(interlock_url, "feeds")]
    assert in_order == [earlier.grant_id, coming.result().grant_id]


def test_a_check_of_an_offer_gives_way_to_a_concurrent_release(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    waiter = second.wait("feeds", listener=LISTENER)
    at = {"function": "release_v1", "before": "elsewhere := ear"}
    with stopped(interlock_url, first, lambda: first.release(held), **at):
        assert third.run("SELECT interlock.offer_v1('{feeds}', NULL)") == []
    assert has_been_notified(interlock_url, listening, waiter)


@pytest.mark.parametrize("by", ["leaving", "releasing many", "breaking"])
def test_the_turn_is_passed_on_while_others_wait_for_the_queues_lock(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client, by: str
) -> None:
    """Passing the turn on locks the queue twice, and other sessions wait between the two."""
    held = first.acquire("feeds")
    if by == "leaving":
        leaver = second.wait("feeds", listener=LISTENER)
        first.release(held)
    stayer = third.wait("feeds", listener=LISTENER)
    ways = {
        "leaving": ("abandon_many_v1", "WITH leaving", lambda: second.abandon(leaver)),
        "releasing many": ("release_many_v1", "IF freed IS NOT NULL", lambda: second.release_many([held])),
        "breaking": ("break_v1", "IF immediate THEN", lambda: second.break_open("feeds", immediate=True)),
    }
    function, before, act = ways[by]
    queue_lock = "SELECT pg_advisory_xact_lock(1229737036, interlock.queue_lock_v1('feeds'))"
    with (
        Client(interlock_url, "next") as next_,
        stopped(interlock_url, second, act, function=function, before=before) as acting,
        meanwhile(interlock_url, next_, lambda: next_.run(queue_lock)),
    ):
        acting.go()
    assert has_been_notified(interlock_url, listening, stayer)
