"""The queue of a lease: first come, first served, and nobody is held up by the dead, the slow or those who left."""

import pytest

from support.protocol import EAR, Client, queue
from support.sql_leases import set_clock


def test_who_waits_is_served_in_the_order_of_arrival(
    interlock_url: str, first: Client, second: Client, third: Client, ear: Client
) -> None:
    held = first.acquire("feeds")
    waiters = [client.wait("feeds", listener=EAR) for client in (second, third, second)]
    for waiter, client in zip(waiters, (second, third, second), strict=True):
        assert first.release(held) == "released"
        assert ear.heard() == [waiter.grant_id]
        held = client.wait("feeds", listener=EAR, grant_id=waiter.grant_id)
        assert held.status == "granted"
    assert queue(interlock_url, "feeds") == []


def test_a_release_tells_the_first_and_nobody_else(
    interlock_url: str, first: Client, second: Client, third: Client, ear: Client
) -> None:
    with Client(interlock_url, "other ear") as other_ear:
        other_ear.listen(8)
        held = first.acquire("feeds")
        waiter = second.wait("feeds", listener=8)
        third.wait("feeds", listener=EAR)
        first.release(held)
        assert other_ear.heard() == [waiter.grant_id]
        assert ear.heard() == []


def test_what_nobody_waits_for_is_released_without_a_word(first: Client, second: Client, ear: Client) -> None:
    second.acquire("other")
    first.wait("other", listener=EAR)
    release = "SELECT status, offered, elsewhere FROM interlock.release_v1(%s, %s, %s)"
    assert first.run(release, *first.acquire("feeds").triple) == [("released", None, None)]
    assert ear.heard() == []


def test_whoever_releases_is_told_whose_turn_it_is_and_its_own_process_is_not_notified(
    first: Client, second: Client, ear: Client
) -> None:
    held = first.acquire("feeds")
    waiter = second.wait("feeds", listener=EAR)
    release = "SELECT status, offered, elsewhere FROM interlock.release_v1(%s, %s, %s, %s)"
    assert first.run(release, *held.triple, EAR) == [("released", waiter.grant_id, False)]
    assert ear.heard() == []
    held = second.wait("feeds", listener=EAR, grant_id=waiter.grant_id)
    waiter = first.wait("feeds", listener=EAR)
    assert second.run(release, *held.triple, 8) == [("released", waiter.grant_id, True)]
    assert ear.heard() == [waiter.grant_id]


@pytest.mark.parametrize("is_free", [True, False])
def test_who_only_tries_never_overtakes_who_waits(
    interlock_url: str, first: Client, second: Client, third: Client, ear: Client, is_free: bool
) -> None:
    held = first.acquire("feeds")
    waiter = second.wait("feeds", listener=EAR)
    if is_free:
        first.release(held)
    assert third.ask("feeds").status == "busy"
    assert third.ask_many(["feeds"])[0].status == "busy"
    assert [grant_id for grant_id, _ in queue(interlock_url, "feeds")] == [waiter.grant_id]


def test_who_waits_at_the_back_does_not_overtake_either(
    first: Client, second: Client, third: Client, ear: Client
) -> None:
    held = first.acquire("feeds")
    second.wait("feeds", listener=EAR)
    late = third.wait("feeds", listener=EAR)
    first.release(held)
    answer = third.wait("feeds", listener=EAR, grant_id=late.grant_id)
    assert (answer.status, answer.retry_after) == ("busy", 1)


def test_the_dead_are_passed_over_and_removed(
    interlock_url: str, first: Client, second: Client, third: Client, ear: Client
) -> None:
    held = first.acquire("feeds")
    with Client(interlock_url, "short-lived") as short_lived:
        short_lived.listen(8)
        for _ in range(3):
            second.wait("feeds", listener=8)
        live = third.wait("feeds", listener=EAR)
        behind = second.wait("feeds", listener=8)
        short_lived.end(interlock_url)
    first.release(held)
    assert queue(interlock_url, "feeds") == [(live.grant_id, True), (behind.grant_id, False)]
    assert ear.heard() == [live.grant_id]


def test_a_queue_of_the_dead_is_no_queue(interlock_url: str, first: Client, second: Client) -> None:
    held = first.acquire("feeds")
    second.wait("feeds", listener=8)
    assert first.release(held) == "released"
    assert queue(interlock_url, "feeds") == []
    assert first.ask("feeds").status == "granted"


def test_two_who_look_at_once_do_not_take_each_other_for_the_dead(
    interlock_url: str, first: Client, second: Client, third: Client
) -> None:
    """Both probe the lock of a listener that is gone; what one has taken must not look alive to the other."""
    first.acquire("feeds")
    second.wait("feeds", listener=8)
    with second.connection.transaction():
        second.run("SELECT interlock.waiters_v1('feeds')")
        assert third.run("SELECT count(*) FROM interlock.waiters_v1('feeds')") == [(0,)]


def test_an_offer_that_is_not_taken_up_within_a_second_goes_to_the_next(
    interlock_url: str, first: Client, second: Client, third: Client, ear: Client
) -> None:
    set_clock(interlock_url, 0)
    held = first.acquire("feeds")
    slow = second.wait("feeds", listener=EAR)
    set_clock(interlock_url, 1)
    third.listen(8)
    next_one = third.wait("feeds", listener=8)
    first.release(held)
    set_clock(interlock_url, 1.9)
    assert third.wait("feeds", listener=8, grant_id=next_one.grant_id).status == "busy"
    set_clock(interlock_url, 2)
    assert first.run("SELECT grant_id FROM interlock.offer_v1('{feeds}', NULL)") == [(next_one.grant_id,)]
    assert (ear.heard(), third.heard()) == ([slow.grant_id, None], [next_one.grant_id])
    assert third.wait("feeds", listener=8, grant_id=next_one.grant_id).status == "granted"
    assert second.wait("feeds", listener=EAR, grant_id=slow.grant_id).status == "busy"
    assert queue(interlock_url, "feeds") == [(slow.grant_id, False)]


def test_who_cannot_be_told_lives_for_five_seconds_after_it_last_asked(
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
def test_who_cannot_be_told_is_told_to_ask_before_the_queue_forgets_it(
    first: Client, second: Client, ear: Client, alone: bool
) -> None:
    first.acquire("feeds", ttl=600)
    for listener, longest in ((None, 2), (EAR, 600)):
        answer = (
            second.wait("feeds", listener=listener)
            if alone
            else second.ask_many(["feeds"], wait=True, listener=listener)[0]
        )
        assert answer.retry_after is not None
        assert longest - 30 < answer.retry_after <= longest


def test_who_leaves_passes_its_offer_on(
    interlock_url: str, first: Client, second: Client, third: Client, ear: Client
) -> None:
    held = first.acquire("feeds")
    leaver, stayer = second.wait("feeds", listener=EAR), third.wait("feeds", listener=EAR)
    first.release(held)
    second.abandon(leaver)
    assert ear.heard() == [leaver.grant_id, stayer.grant_id]
    assert queue(interlock_url, "feeds") == [(stayer.grant_id, True)]


def test_who_leaves_before_its_turn_is_forgotten(
    interlock_url: str, first: Client, second: Client, third: Client, ear: Client
) -> None:
    held = first.acquire("feeds")
    leaver, stayer = second.wait("feeds", listener=EAR), third.wait("feeds", listener=EAR)
    second.abandon(leaver)
    assert ear.heard() == []
    assert queue(interlock_url, "feeds") == [(stayer.grant_id, False)]
    first.release(held)
    assert ear.heard() == [stayer.grant_id]


def test_who_asks_again_keeps_its_place_also_after_it_heard_anew(
    interlock_url: str, first: Client, second: Client, third: Client, ear: Client
) -> None:
    first.acquire("feeds")
    waiters = [client.wait("feeds", listener=8) for client in (second, third)]
    for waiter, client in zip(reversed(waiters), (third, second), strict=True):
        client.wait("feeds", listener=EAR, grant_id=waiter.grant_id)
    assert [grant_id for grant_id, _ in queue(interlock_url, "feeds")] == [one.grant_id for one in waiters]
    assert third.run("SELECT count(*) FROM interlock.waiters_v1('feeds')") == [(2,)]


def test_when_a_lease_expires_whoever_asks_first_calls_the_first(
    interlock_url: str, first: Client, second: Client, third: Client, ear: Client
) -> None:
    set_clock(interlock_url, 0)
    first.acquire("feeds", ttl=30)
    turn = second.wait("feeds", listener=EAR)
    set_clock(interlock_url, 1)
    late = third.wait("feeds", listener=EAR)
    set_clock(interlock_url, 30)
    assert third.wait("feeds", listener=EAR, grant_id=late.grant_id).status == "busy"
    assert ear.heard() == [turn.grant_id]
    assert second.wait("feeds", listener=EAR, grant_id=turn.grant_id).status == "granted"


def test_whose_turn_it_is_while_the_lease_is_guarded_keeps_it_and_is_not_called_all_the_time(
    interlock_url: str, first: Client, second: Client, third: Client, ear: Client
) -> None:
    set_clock(interlock_url, 0)
    held = first.acquire("feeds", ttl=30)
    waiter = second.wait("feeds", listener=EAR)
    with third.connection.transaction():
        third.guard(held)
        first.release(held)
        calls = 0
        for tenth in range(30):
            set_clock(interlock_url, tenth / 10)
            answer = second.wait("feeds", listener=EAR, grant_id=waiter.grant_id)
            assert (answer.status, answer.retry_after) == ("locked", 0.02)
            assert first.ask("feeds").status == "busy"
            calls += len(ear.heard())
        assert calls <= 7
    assert second.wait("feeds", listener=EAR, grant_id=waiter.grant_id).status == "granted"


def test_the_session_that_listens_shows_that_its_process_lives(interlock_url: str, first: Client) -> None:
    with Client(interlock_url, "short-lived") as listening:
        listening.listen(8)
        assert first.run("SELECT interlock.listen_v1(8)") == [(False,)]
        listening.end(interlock_url)
    first.listen(8)


def test_names_with_the_same_lock_do_not_disturb_each_other_for_long(
    interlock_url: str, first: Client, second: Client, ear: Client
) -> None:
    [[other]] = first.run(
        "SELECT n::text FROM generate_series(1, 100000) AS n"
        " WHERE interlock.queue_lock_v1(n::text) = interlock.queue_lock_v1('feeds') LIMIT 1"
    )
    held, elsewhere = first.acquire("feeds"), first.acquire(other)
    with first.connection.transaction():
        first.release(held)
        comer = second.wait(other, listener=EAR)
        assert comer.status == "changing"
    assert second.wait(other, listener=EAR, grant_id=comer.grant_id).status == "busy"
    assert first.release(elsewhere) == "released"
    assert ear.heard() == [comer.grant_id]
