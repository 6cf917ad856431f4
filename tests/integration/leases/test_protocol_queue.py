"""The queue of a lease: first come, first served, without delays by dead, slow or departed waiters."""

import pytest

from support.protocol import LISTENER, Client, queue
from support.sql_leases import set_clock


def test_waiters_are_served_in_the_order_of_arrival(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    waiters = [client.wait("feeds", listener=LISTENER) for client in (second, third, second)]
    for waiter, client in zip(waiters, (second, third, second), strict=True):
        assert first.release(held) == "released"
        assert listening.notified() == [waiter.grant_id]
        held = client.wait("feeds", listener=LISTENER, grant_id=waiter.grant_id)
        assert held.status == "granted"
    assert queue(interlock_url, "feeds") == []


def test_a_release_notifies_only_the_first_waiter(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    with Client(interlock_url, "other ear") as other_listening:
        other_listening.listen(8)
        held = first.acquire("feeds")
        waiter = second.wait("feeds", listener=8)
        third.wait("feeds", listener=LISTENER)
        first.release(held)
        assert other_listening.notified() == [waiter.grant_id]
        assert listening.notified() == []


def test_a_release_without_waiters_sends_no_notification(first: Client, second: Client, listening: Client) -> None:
    second.acquire("other")
    first.wait("other", listener=LISTENER)
    release = "SELECT status, offered, elsewhere FROM interlock.release_v1(%s, %s, %s)"
    assert first.run(release, *first.acquire("feeds").triple) == [("released", None, None)]
    assert listening.notified() == []


def test_a_release_returns_the_next_waiter_and_does_not_notify_its_own_process(
    first: Client, second: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    waiter = second.wait("feeds", listener=LISTENER)
    release = "SELECT status, offered, elsewhere FROM interlock.release_v1(%s, %s, %s, %s)"
    assert first.run(release, *held.triple, LISTENER) == [("released", waiter.grant_id, False)]
    assert listening.notified() == []
    held = second.wait("feeds", listener=LISTENER, grant_id=waiter.grant_id)
    waiter = first.wait("feeds", listener=LISTENER)
    assert second.run(release, *held.triple, 8) == [("released", waiter.grant_id, True)]
    assert listening.notified() == [waiter.grant_id]


@pytest.mark.parametrize("is_free", [True, False])
def test_a_try_never_overtakes_a_waiter(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client, is_free: bool
) -> None:
    held = first.acquire("feeds")
    waiter = second.wait("feeds", listener=LISTENER)
    if is_free:
        first.release(held)
    assert third.ask("feeds").status == "busy"
    assert third.ask_many(["feeds"])[0].status == "busy"
    assert [grant_id for grant_id, _ in queue(interlock_url, "feeds")] == [waiter.grant_id]


def test_a_later_waiter_does_not_overtake_either(
    first: Client, second: Client, third: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    second.wait("feeds", listener=LISTENER)
    late = third.wait("feeds", listener=LISTENER)
    first.release(held)
    answer = third.wait("feeds", listener=LISTENER, grant_id=late.grant_id)
    assert (answer.status, answer.retry_after) == ("busy", 1)


def test_dead_waiters_are_skipped_and_removed(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    with Client(interlock_url, "short-lived") as short_lived:
        short_lived.listen(8)
        for _ in range(3):
            second.wait("feeds", listener=8)
        live = third.wait("feeds", listener=LISTENER)
        behind = second.wait("feeds", listener=8)
        short_lived.end(interlock_url)
    first.release(held)
    assert queue(interlock_url, "feeds") == [(live.grant_id, True), (behind.grant_id, False)]
    assert listening.notified() == [live.grant_id]


def test_a_queue_of_dead_waiters_counts_as_empty(interlock_url: str, first: Client, second: Client) -> None:
    held = first.acquire("feeds")
    second.wait("feeds", listener=8)
    assert first.release(held) == "released"
    assert queue(interlock_url, "feeds") == []
    assert first.ask("feeds").status == "granted"


def test_two_concurrent_probes_do_not_take_each_other_for_a_live_listener(
    interlock_url: str, first: Client, second: Client, third: Client
) -> None:
    """Both probe the lock of a listener that is gone; the lock that one takes must not look like a live listener."""
    first.acquire("feeds")
    second.wait("feeds", listener=8)
    with second.connection.transaction():
        second.run("SELECT interlock.waiters_v1('feeds')")
        assert third.run("SELECT count(*) FROM interlock.waiters_v1('feeds')") == [(0,)]


def test_an_offer_that_is_not_accepted_within_a_second_goes_to_the_next(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    set_clock(interlock_url, 0)
    held = first.acquire("feeds")
    slow = second.wait("feeds", listener=LISTENER)
    set_clock(interlock_url, 1)
    third.listen(8)
    next_one = third.wait("feeds", listener=8)
    first.release(held)
    set_clock(interlock_url, 1.9)
    assert third.wait("feeds", listener=8, grant_id=next_one.grant_id).status == "busy"
    set_clock(interlock_url, 2)
    assert first.run("SELECT grant_id FROM interlock.offer_v1('{feeds}', NULL)") == [(next_one.grant_id,)]
    assert (listening.notified(), third.notified()) == ([slow.grant_id, None], [next_one.grant_id])
    assert third.wait("feeds", listener=8, grant_id=next_one.grant_id).status == "granted"
    assert second.wait("feeds", listener=LISTENER, grant_id=slow.grant_id).status == "busy"
    assert queue(interlock_url, "feeds") == [(slow.grant_id, False)]


def test_a_waiter_that_cannot_be_notified_lives_for_five_seconds_after_its_last_request(
    interlock_url: str, first: Client, second: Client, third: Client
) -> None:
    set_clock(interlock_url, 0)
    held = first.acquire("feeds", ttl=30)
    waiter = second.wait("feeds")
    set_clock(interlock_url, 4)
    second.wait("feeds", grant_id=waiter.grant_id)
    set_clock(interlock_url, 8)
    first.release(held)
    assert third.ask("feeds").status == "busy"
    set_clock(interlock_url, 9)
    assert third.ask("feeds").status == "granted"


@pytest.mark.parametrize("alone", [True, False])
def test_a_waiter_that_cannot_be_notified_is_asked_to_poll_before_the_queue_forgets_it(
    first: Client, second: Client, listening: Client, alone: bool
) -> None:
    first.acquire("feeds", ttl=600)
    for listener, longest in ((None, 2), (LISTENER, 600)):
        answer = (
            second.wait("feeds", listener=listener)
            if alone
            else second.ask_many(["feeds"], wait=True, listener=listener)[0]
        )
        assert answer.retry_after is not None
        assert longest - 30 < answer.retry_after <= longest


def test_a_departing_waiter_passes_its_offer_to_the_next(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    leaver, stayer = second.wait("feeds", listener=LISTENER), third.wait("feeds", listener=LISTENER)
    first.release(held)
    second.abandon(leaver)
    assert listening.notified() == [leaver.grant_id, stayer.grant_id]
    assert queue(interlock_url, "feeds") == [(stayer.grant_id, True)]


def test_a_waiter_that_leaves_before_its_turn_is_forgotten(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    leaver, stayer = second.wait("feeds", listener=LISTENER), third.wait("feeds", listener=LISTENER)
    second.abandon(leaver)
    assert listening.notified() == []
    assert queue(interlock_url, "feeds") == [(stayer.grant_id, False)]
    first.release(held)
    assert listening.notified() == [stayer.grant_id]


def test_a_repeated_request_keeps_its_position_also_with_a_new_listener(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    first.acquire("feeds")
    waiters = [client.wait("feeds", listener=8) for client in (second, third)]
    for waiter, client in zip(reversed(waiters), (third, second), strict=True):
        client.wait("feeds", listener=LISTENER, grant_id=waiter.grant_id)
    assert [grant_id for grant_id, _ in queue(interlock_url, "feeds")] == [one.grant_id for one in waiters]
    assert third.run("SELECT count(*) FROM interlock.waiters_v1('feeds')") == [(2,)]


def test_after_an_expiry_the_next_request_notifies_the_first_waiter(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    set_clock(interlock_url, 0)
    first.acquire("feeds", ttl=30)
    turn = second.wait("feeds", listener=LISTENER)
    set_clock(interlock_url, 1)
    late = third.wait("feeds", listener=LISTENER)
    set_clock(interlock_url, 30)
    assert third.wait("feeds", listener=LISTENER, grant_id=late.grant_id).status == "busy"
    assert listening.notified() == [turn.grant_id]
    assert second.wait("feeds", listener=LISTENER, grant_id=turn.grant_id).status == "granted"


def test_the_first_waiter_of_a_guarded_lease_keeps_its_turn_and_is_not_notified_repeatedly(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    set_clock(interlock_url, 0)
    held = first.acquire("feeds", ttl=30)
    waiter = second.wait("feeds", listener=LISTENER)
    with third.connection.transaction():
        third.guard(held)
        first.release(held)
        calls = 0
        for tenth in range(30):
            set_clock(interlock_url, tenth / 10)
            answer = second.wait("feeds", listener=LISTENER, grant_id=waiter.grant_id)
            assert (answer.status, answer.retry_after) == ("locked", 0.02)
            assert first.ask("feeds").status == "busy"
            calls += len(listening.notified())
        assert calls <= 7
    assert second.wait("feeds", listener=LISTENER, grant_id=waiter.grant_id).status == "granted"


def test_the_session_that_listens_shows_that_its_process_lives(interlock_url: str, first: Client) -> None:
    with Client(interlock_url, "short-lived") as listening:
        listening.listen(8)
        assert first.run("SELECT interlock.listen_v1(8)") == [(False,)]
        listening.end(interlock_url)
    first.listen(8)


def test_names_with_the_same_lock_do_not_disturb_each_other_for_long(
    interlock_url: str, first: Client, second: Client, listening: Client
) -> None:
    [[other]] = first.run(
        "SELECT n::text FROM generate_series(1, 100000) AS n"
        " WHERE interlock.queue_lock_v1(n::text) = interlock.queue_lock_v1('feeds') LIMIT 1"
    )
    held, elsewhere = first.acquire("feeds"), first.acquire(other)
    with first.connection.transaction():
        first.release(held)
        comer = second.wait(other, listener=LISTENER)
        assert comer.status == "changing"
    assert second.wait(other, listener=LISTENER, grant_id=comer.grant_id).status == "busy"
    assert first.release(elsewhere) == "released"
    assert listening.notified() == [comer.grant_id]
