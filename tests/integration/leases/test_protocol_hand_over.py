"""A release hands the lease over: the first waiter has it before it is notified; for a second, if it does not reply."""

import pytest

from support.postgres import execute
from support.protocol import LISTENER, Answer, Client, note_commits, queue
from support.sql_leases import set_clock, slow_clock

HOLDER = """
    SELECT grant_id, token, holder, ttl,
           round(extract(epoch FROM nullif(expires_at, '-infinity') - acquired_at)::numeric, 3)::float8
"""


def holder(url: str, name: str = "feeds") -> tuple[object, ...]:
    """Returns the current grant: grant id, token, holder, requested ttl, granted seconds."""
    return execute(url, f"{HOLDER} FROM interlock.lease WHERE name = %s", name)[0]


def handed(url: str, first: Client, second: Client, *, listener: int | None = None) -> Answer:
    """Returns a grant that was handed over from `first` to `second`."""
    held = first.acquire("feeds")
    waiter = second.wait("feeds", listener=LISTENER, direct=True)
    assert waiter.status == "busy"
    token = first.hand_over(held, listener=listener).token
    assert token is not None
    assert token > held.token
    return waiter._replace(token=token)


@pytest.fixture(autouse=True)
def slow(interlock_url: str) -> None:
    """The database's second takes half a minute, so that it is not over because this machine is slow."""
    slow_clock(interlock_url, 30)


def test_the_first_waiter_has_it_and_is_notified(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    waiter, next_ = (
        second.wait("feeds", listener=LISTENER, direct=True),
        third.wait("feeds", listener=LISTENER, direct=True),
    )
    came = first.hand_over(held)
    assert (came.status, came.offered, came.elsewhere) == ("released", waiter.grant_id, True)
    assert holder(interlock_url) == (waiter.grant_id, came.token, "second", 30.0, 1.0)
    assert listening.notified_payloads() == [f"{waiter.grant_id} {came.token} {came.until!r}"]
    assert queue(interlock_url, "feeds") == [(next_.grant_id, False)]
    assert first.hand_over(held).status == "lost"
    assert third.ask("feeds").status == "busy"


def test_a_waiter_of_the_same_process_is_returned_and_not_notified(
    interlock_url: str, first: Client, second: Client, listening: Client
) -> None:
    waiter = handed(interlock_url, first, second, listener=LISTENER)
    assert holder(interlock_url)[:2] == (waiter.grant_id, waiter.token)
    assert listening.notified() == []


@pytest.fixture
def at_rest(interlock_url: str) -> None:
    """The database's clock stands still."""
    set_clock(interlock_url, 0)


@pytest.mark.usefixtures("at_rest")
@pytest.mark.parametrize("by", ["renewing", "asking", "asking for many"])
def test_a_waiter_that_confirms_has_it_for_its_whole_ttl(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client, by: str
) -> None:
    waiter = handed(interlock_url, first, second)
    if by == "renewing":
        assert second.renew(waiter) == "renewed"
    else:
        if by == "asking":
            answer = second.wait("feeds", listener=LISTENER, grant_id=waiter.grant_id)
        else:
            [answer] = second.ask_many(["feeds"], grant_ids=[waiter.grant_id], wait=True, listener=LISTENER)
        assert (answer.status, answer.token) == ("granted", waiter.token)
        assert answer.remaining is not None
        assert answer.remaining > 28
    set_clock(interlock_url, 20)
    assert third.ask("feeds").status == "busy"
    assert third.run("SELECT interlock.offer_v1('{feeds}', NULL)") == []
    assert listening.notified_payloads()[1:] == [], "its process is not taken for dead"


def test_a_short_lease_is_not_granted_for_longer_than_requested(
    interlock_url: str, first: Client, second: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    second.ask("feeds", ttl=0.5, wait=True, listener=LISTENER, direct=True)
    first.hand_over(held)
    assert holder(interlock_url)[3:] == (0.5, 0.5)


@pytest.mark.usefixtures("at_rest")
def test_a_waiter_that_does_not_confirm_has_it_for_a_second_and_its_process_is_skipped(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    third.listen(8)
    silent = []
    for number in range(3):
        set_clock(interlock_url, number / 1000)
        silent.append(second.wait("feeds", listener=LISTENER, direct=True))
    set_clock(interlock_url, 0.01)
    lively = first.wait("feeds", listener=8, direct=True)
    assert first.hand_over(held).offered == silent[0].grant_id
    set_clock(interlock_url, 0.9)
    assert first.run("SELECT interlock.offer_v1('{feeds}', NULL)") == []
    set_clock(interlock_url, 1.1)
    first.run("SELECT interlock.offer_v1('{feeds}', NULL)")
    assert third.notified() == [lively.grant_id]
    assert listening.notified() == [silent[0].grant_id, None]
    answer = first.wait("feeds", listener=8, grant_id=lively.grant_id)
    assert (answer.status, answer.token > held.token) == ("granted", True)
    assert second.wait("feeds", listener=LISTENER, grant_id=silent[0].grant_id).status == "busy"


def test_a_waiter_that_leaves_before_its_confirmation_passes_it_to_the_next(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    waiter = handed(interlock_url, first, second)
    next_ = third.wait("feeds", listener=LISTENER, direct=True)
    second.abandon(waiter)
    assert listening.notified() == [waiter.grant_id, next_.grant_id]
    assert third.wait("feeds", listener=LISTENER, grant_id=next_.grant_id).status == "granted"


def test_a_waiter_that_leaves_keeps_the_lease_that_it_holds(
    interlock_url: str, first: Client, second: Client, listening: Client
) -> None:
    waiter = handed(interlock_url, first, second)
    second.renew(waiter)
    second.abandon(waiter)
    assert holder(interlock_url)[0] == waiter.grant_id


def test_a_waiter_without_consent_to_a_hand_over_is_notified_instead(
    interlock_url: str, first: Client, second: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    waiter = second.wait("feeds", listener=LISTENER)
    came = first.hand_over(held)
    assert (came.status, came.offered, came.token) == ("released", waiter.grant_id, None)
    assert listening.notified_payloads() == [str(waiter.grant_id)]
    assert holder(interlock_url)[0] is None


def test_a_waiter_that_cannot_be_notified_is_not_handed_it(interlock_url: str, first: Client, second: Client) -> None:
    held = first.acquire("feeds")
    second.wait("feeds", direct=True)
    assert first.hand_over(held).token is None
    assert holder(interlock_url)[0] is None


def test_the_dead_are_not_handed_it(interlock_url: str, first: Client, second: Client, listening: Client) -> None:
    held = first.acquire("feeds")
    with Client(interlock_url, "short-lived") as short_lived:
        short_lived.listen(8)
        second.wait("feeds", listener=8, direct=True)
        lively = second.wait("feeds", listener=LISTENER, direct=True)
        short_lived.end(interlock_url)
    came = first.hand_over(held)
    assert (came.offered, came.token) == (lively.grant_id, None)
    assert listening.notified() == [lively.grant_id]


def test_a_guarded_lease_is_not_handed_over_before_the_transaction_ends(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    waiter = second.wait("feeds", listener=LISTENER, direct=True)
    with third.connection.transaction():
        third.guard(held)
        came = first.hand_over(held)
        assert (came.status, came.offered, came.token) == ("released", waiter.grant_id, None)
        assert second.wait("feeds", listener=LISTENER, grant_id=waiter.grant_id).status == "locked"
    assert second.wait("feeds", listener=LISTENER, grant_id=waiter.grant_id).status == "granted"


def test_after_a_promotion_nothing_is_handed_over(
    interlock_url: str, first: Client, second: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    second.wait("feeds", listener=LISTENER, direct=True)
    execute(interlock_url, "UPDATE interlock.lease_epoch SET timeline = timeline - 1")
    assert first.hand_over(held).token is None
    assert holder(interlock_url)[0] is None


def test_a_hand_over_waits_for_the_disk_and_a_release_without_waiters_does_not(
    interlock_url: str, first: Client, second: Client, listening: Client
) -> None:
    note_commits(interlock_url)
    first.run("SET synchronous_commit = off")
    waiter = handed(interlock_url, first, second)
    assert execute(interlock_url, "DELETE FROM setting RETURNING at")[-1] == ("on",)
    second.run("SET synchronous_commit = on")
    second.renew(waiter)
    execute(interlock_url, "DELETE FROM setting")
    assert second.hand_over(waiter).status == "released"
    assert execute(interlock_url, "SELECT at FROM setting") == [("off",)]


@pytest.mark.parametrize("before", [True, False], ids=["first in the queue", "last in the queue"])
@pytest.mark.parametrize("direct", [True, False], ids=["handed on", "called"])
def test_a_waiter_does_not_succeed_itself(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client, before: bool, direct: bool
) -> None:
    """A waiter that asks again at the moment of the hand-over may enter the queue a second time."""
    waiter = handed(interlock_url, first, second)
    next_ = third.wait("feeds", listener=LISTENER, direct=direct)
    execute(
        interlock_url,
        "INSERT INTO interlock.waiter (grant_id, name, enqueued_at, listener, seen_at, ttl)"
        " SELECT %s, name, enqueued_at + %s * interval '1 microsecond', listener, seen_at, 30 FROM interlock.waiter",
        waiter.grant_id,
        -1 if before else 1,
    )
    assert second.hand_over(waiter).offered == next_.grant_id
    assert queue(interlock_url, "feeds") == ([] if direct else [(next_.grant_id, True)])


def test_a_lone_waiter_does_not_succeed_itself(
    interlock_url: str, first: Client, second: Client, listening: Client
) -> None:
    waiter = handed(interlock_url, first, second)
    execute(
        interlock_url,
        "INSERT INTO interlock.waiter (grant_id, name, enqueued_at, listener, seen_at, ttl)"
        " VALUES (%s, 'feeds', interlock.now_v1(), %s, interlock.now_v1(), 30)",
        waiter.grant_id,
        LISTENER,
    )
    assert second.hand_over(waiter).offered is None
    assert queue(interlock_url, "feeds") == []


def test_the_release_of_a_lost_grant_leaves_the_queue_and_waits_for_no_one(
    interlock_url: str, first: Client, second: Client, third: Client
) -> None:
    held, other = first.acquire("feeds"), first.acquire("reports")
    waiter = second.wait("feeds")
    lost = waiter._replace(token=held.token)
    assert second.release(lost._replace(name=other.name)) == "lost"
    with third.connection.transaction():
        third.run("SELECT FROM interlock.waiter FOR UPDATE")
        assert second.release(lost) == "lost"
    assert queue(interlock_url, "feeds") == [(waiter.grant_id, False)]
    assert second.release(lost) == "lost"
    assert queue(interlock_url, "feeds") == []


@pytest.mark.usefixtures("at_rest")
def test_a_waiter_that_does_not_confirm_is_given_up_once(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    """Also while the lease cannot be granted yet."""
    waiter = handed(interlock_url, first, second)
    with third.connection.transaction():
        third.guard(waiter)
        set_clock(interlock_url, 1.1)
        for _ in range(3):
            first.run("SELECT interlock.offer_v1('{feeds}', NULL)")
    assert listening.notified() == [waiter.grant_id, None]
