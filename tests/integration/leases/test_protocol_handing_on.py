"""Who gives a lease back hands it on: the first in the queue has it before it is told, for a second if it is deaf."""

import pytest

from support.postgres import execute
from support.protocol import EAR, Answer, Client, note_commits, queue
from support.sql_leases import set_clock, slow_clock

HOLDER = """
    SELECT grant_id, token, holder, ttl,
           round(extract(epoch FROM nullif(expires_at, '-infinity') - acquired_at)::numeric, 3)::float8
"""


def holder(url: str, name: str = "feeds") -> tuple[object, ...]:
    """Whose grant it is, its token, who that is, the ttl that it has asked for, and for how long it was granted."""
    return execute(url, f"{HOLDER} FROM interlock.lease WHERE name = %s", name)[0]


def handed(url: str, first: Client, second: Client, *, listener: int | None = None) -> Answer:
    """A lease that `first` had and that was handed on to `second`."""
    held = first.acquire("feeds")
    waiter = second.wait("feeds", listener=EAR, direct=True)
    assert waiter.status == "busy"
    token = first.hand_on(held, listener=listener).token
    assert token is not None
    assert token > held.token
    return waiter._replace(token=token)


@pytest.fixture(autouse=True)
def slow(interlock_url: str) -> None:
    """The database's second takes half a minute: it is not over because this machine stands still."""
    slow_clock(interlock_url, 30)


def test_the_first_in_the_queue_has_it_and_is_told_so(
    interlock_url: str, first: Client, second: Client, third: Client, ear: Client
) -> None:
    held = first.acquire("feeds")
    waiter, next_ = second.wait("feeds", listener=EAR, direct=True), third.wait("feeds", listener=EAR, direct=True)
    came = first.hand_on(held)
    assert (came.status, came.offered, came.elsewhere) == ("released", waiter.grant_id, True)
    assert holder(interlock_url) == (waiter.grant_id, came.token, "second", 30.0, 1.0)
    assert ear.heard_words() == [f"{waiter.grant_id} {came.token} {came.until!r}"]
    assert queue(interlock_url, "feeds") == [(next_.grant_id, False)]
    assert first.hand_on(held).status == "lost"
    assert third.ask("feeds").status == "busy"


def test_one_of_our_own_is_named_and_not_told(interlock_url: str, first: Client, second: Client, ear: Client) -> None:
    waiter = handed(interlock_url, first, second, listener=EAR)
    assert holder(interlock_url)[:2] == (waiter.grant_id, waiter.token)
    assert ear.heard() == []


@pytest.fixture
def at_rest(interlock_url: str) -> None:
    """The database's clock stands still."""
    set_clock(interlock_url, 0)


@pytest.mark.usefixtures("at_rest")
@pytest.mark.parametrize("by", ["renewing", "asking", "asking for many"])
def test_who_is_heard_of_has_it_for_its_whole_length(
    interlock_url: str, first: Client, second: Client, third: Client, ear: Client, by: str
) -> None:
    waiter = handed(interlock_url, first, second)
    if by == "renewing":
        assert second.renew(waiter) == "renewed"
    else:
        if by == "asking":
            answer = second.wait("feeds", listener=EAR, grant_id=waiter.grant_id)
        else:
            [answer] = second.ask_many(["feeds"], grant_ids=[waiter.grant_id], wait=True, listener=EAR)
        assert (answer.status, answer.token) == ("granted", waiter.token)
        assert answer.remaining is not None
        assert answer.remaining > 28
    set_clock(interlock_url, 20)
    assert third.ask("feeds").status == "busy"
    assert third.run("SELECT interlock.offer_v1('{feeds}', NULL)") == []
    assert ear.heard_words()[1:] == [], "its process is not taken for dead"


def test_a_short_lease_is_not_granted_for_longer_than_it_was_asked_for(
    interlock_url: str, first: Client, second: Client, ear: Client
) -> None:
    held = first.acquire("feeds")
    second.ask("feeds", ttl=0.5, wait=True, listener=EAR, direct=True)
    first.hand_on(held)
    assert holder(interlock_url)[3:] == (0.5, 0.5)


@pytest.mark.usefixtures("at_rest")
def test_who_is_not_heard_of_has_it_for_a_second_and_its_whole_process_is_passed_over(
    interlock_url: str, first: Client, second: Client, third: Client, ear: Client
) -> None:
    held = first.acquire("feeds")
    third.listen(8)
    deaf = []
    for number in range(3):
        set_clock(interlock_url, number / 1000)
        deaf.append(second.wait("feeds", listener=EAR, direct=True))
    set_clock(interlock_url, 0.01)
    lively = first.wait("feeds", listener=8, direct=True)
    assert first.hand_on(held).offered == deaf[0].grant_id
    set_clock(interlock_url, 0.9)
    assert first.run("SELECT interlock.offer_v1('{feeds}', NULL)") == []
    set_clock(interlock_url, 1.1)
    first.run("SELECT interlock.offer_v1('{feeds}', NULL)")
    assert third.heard() == [lively.grant_id]
    assert ear.heard() == [deaf[0].grant_id, None]
    answer = first.wait("feeds", listener=8, grant_id=lively.grant_id)
    assert (answer.status, answer.token > held.token) == ("granted", True)
    assert second.wait("feeds", listener=EAR, grant_id=deaf[0].grant_id).status == "busy"


def test_who_goes_away_before_it_has_heard_of_it_gives_it_on(
    interlock_url: str, first: Client, second: Client, third: Client, ear: Client
) -> None:
    waiter = handed(interlock_url, first, second)
    next_ = third.wait("feeds", listener=EAR, direct=True)
    second.abandon(waiter)
    assert ear.heard() == [waiter.grant_id, next_.grant_id]
    assert third.wait("feeds", listener=EAR, grant_id=next_.grant_id).status == "granted"


def test_who_goes_away_takes_nothing_with_it_that_it_holds(
    interlock_url: str, first: Client, second: Client, ear: Client
) -> None:
    waiter = handed(interlock_url, first, second)
    second.renew(waiter)
    second.abandon(waiter)
    assert holder(interlock_url)[0] == waiter.grant_id


def test_who_did_not_say_that_it_may_be_handed_it_is_called(
    interlock_url: str, first: Client, second: Client, ear: Client
) -> None:
    held = first.acquire("feeds")
    waiter = second.wait("feeds", listener=EAR)
    came = first.hand_on(held)
    assert (came.status, came.offered, came.token) == ("released", waiter.grant_id, None)
    assert ear.heard_words() == [str(waiter.grant_id)]
    assert holder(interlock_url)[0] is None


def test_who_cannot_be_told_is_not_handed_it(interlock_url: str, first: Client, second: Client) -> None:
    held = first.acquire("feeds")
    second.wait("feeds", direct=True)
    assert first.hand_on(held).token is None
    assert holder(interlock_url)[0] is None


def test_the_dead_are_not_handed_it(interlock_url: str, first: Client, second: Client, ear: Client) -> None:
    held = first.acquire("feeds")
    with Client(interlock_url, "short-lived") as short_lived:
        short_lived.listen(8)
        second.wait("feeds", listener=8, direct=True)
        lively = second.wait("feeds", listener=EAR, direct=True)
        short_lived.end(interlock_url)
    came = first.hand_on(held)
    assert (came.offered, came.token) == (lively.grant_id, None)
    assert ear.heard() == [lively.grant_id]


def test_what_a_transaction_guards_is_not_handed_on_before_its_end(
    interlock_url: str, first: Client, second: Client, third: Client, ear: Client
) -> None:
    held = first.acquire("feeds")
    waiter = second.wait("feeds", listener=EAR, direct=True)
    with third.connection.transaction():
        third.guard(held)
        came = first.hand_on(held)
        assert (came.status, came.offered, came.token) == ("released", waiter.grant_id, None)
        assert second.wait("feeds", listener=EAR, grant_id=waiter.grant_id).status == "locked"
    assert second.wait("feeds", listener=EAR, grant_id=waiter.grant_id).status == "granted"


def test_after_a_promotion_nothing_is_handed_on(interlock_url: str, first: Client, second: Client, ear: Client) -> None:
    held = first.acquire("feeds")
    second.wait("feeds", listener=EAR, direct=True)
    execute(interlock_url, "UPDATE interlock.lease_epoch SET timeline = timeline - 1")
    assert first.hand_on(held).token is None
    assert holder(interlock_url)[0] is None


def test_a_grant_that_was_handed_on_is_on_the_disk_and_a_release_to_nobody_does_not_wait_for_it(
    interlock_url: str, first: Client, second: Client, ear: Client
) -> None:
    note_commits(interlock_url)
    first.run("SET synchronous_commit = off")
    waiter = handed(interlock_url, first, second)
    assert execute(interlock_url, "DELETE FROM setting RETURNING at")[-1] == ("on",)
    second.run("SET synchronous_commit = on")
    second.renew(waiter)
    execute(interlock_url, "DELETE FROM setting")
    assert second.hand_on(waiter).status == "released"
    assert execute(interlock_url, "SELECT at FROM setting") == [("off",)]


@pytest.mark.parametrize("before", [True, False], ids=["first in the queue", "last in the queue"])
@pytest.mark.parametrize("direct", [True, False], ids=["handed on", "called"])
def test_nobody_is_next_after_itself(
    interlock_url: str, first: Client, second: Client, third: Client, ear: Client, before: bool, direct: bool
) -> None:
    """Who asks again just when it is handed the lease may put itself into the queue once more."""
    waiter = handed(interlock_url, first, second)
    next_ = third.wait("feeds", listener=EAR, direct=direct)
    execute(
        interlock_url,
        "INSERT INTO interlock.waiter (grant_id, name, enqueued_at, listener, seen_at, ttl)"
        " SELECT %s, name, enqueued_at + %s * interval '1 microsecond', listener, seen_at, 30 FROM interlock.waiter",
        waiter.grant_id,
        -1 if before else 1,
    )
    assert second.hand_on(waiter).offered == next_.grant_id
    assert queue(interlock_url, "feeds") == ([] if direct else [(next_.grant_id, True)])


def test_nobody_is_next_after_itself_alone(interlock_url: str, first: Client, second: Client, ear: Client) -> None:
    waiter = handed(interlock_url, first, second)
    execute(
        interlock_url,
        "INSERT INTO interlock.waiter (grant_id, name, enqueued_at, listener, seen_at, ttl)"
        " VALUES (%s, 'feeds', interlock.now_v1(), %s, interlock.now_v1(), 30)",
        waiter.grant_id,
        EAR,
    )
    assert second.hand_on(waiter).offered is None
    assert queue(interlock_url, "feeds") == []


def test_who_gives_back_what_it_has_lost_leaves_the_queue_and_waits_for_nobody(
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
def test_who_was_not_heard_of_is_given_up_once(
    interlock_url: str, first: Client, second: Client, third: Client, ear: Client
) -> None:
    """Also where the lease cannot be had by anybody yet."""
    waiter = handed(interlock_url, first, second)
    with third.connection.transaction():
        third.guard(waiter)
        set_clock(interlock_url, 1.1)
        for _ in range(3):
            first.run("SELECT interlock.offer_v1('{feeds}', NULL)")
    assert ear.heard() == [waiter.grant_id, None]
