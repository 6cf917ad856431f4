"""Nobody sleeps through a release: whoever is in the queue of a free lease has been told that it is its turn.

Each test forces one order of two transactions on one queue, by stopping the session called `paused` between two
statements. Whoever is told `changing` asks again at once, so that is no sleep.
"""

from collections.abc import Iterator

import pytest

from support.protocol import Answer, Client, meanwhile, pause, queue
from support.sql_leases import set_clock

EAR = 7


@pytest.fixture
def first(interlock_url: str) -> Iterator[Client]:
    with Client(interlock_url, "first") as client:
        yield client


@pytest.fixture
def second(interlock_url: str) -> Iterator[Client]:
    with Client(interlock_url, "second") as client:
        yield client


@pytest.fixture
def paused(interlock_url: str) -> Iterator[Client]:
    with Client(interlock_url, "paused") as client:
        yield client


@pytest.fixture
def ear(interlock_url: str) -> Iterator[Client]:
    """The session that hears for all who wait here."""
    with Client(interlock_url, "ear") as client:
        client.listen(EAR)
        yield client


def settled(client: Client, answer: Answer) -> Answer:
    """Ask again for as long as the answer says so."""
    while answer.status == "changing":
        answer = client.wait(answer.name, listener=EAR, grant_id=answer.grant_id)
    return answer


def knows_its_turn(url: str, ear: Client, answer: Answer) -> bool:
    was_told = queue(url, answer.name) == [(answer.grant_id, True)] and answer.grant_id in ear.heard()
    return answer.status == "granted" or was_told


def test_who_comes_while_a_release_is_under_way_is_told_to_ask_again(
    interlock_url: str, first: Client, paused: Client, ear: Client
) -> None:
    held = paused.acquire("feeds")
    with pause(interlock_url, "release_v1", before="status := 'released'") as go:
        with meanwhile(interlock_url, paused, lambda: paused.release(held)):
            early = first.wait("feeds", listener=EAR)
            go()
    assert (early.status, queue(interlock_url, "feeds")) == ("changing", [])
    assert settled(first, early).status == "granted"


@pytest.mark.parametrize(
    ("function", "before"),
    [
        ("acquire_v1", "IF EXISTS (SELECT FROM interlock.lease l WHERE l.name = acquire_v1.name AND"),
        ("acquire_many_v1", "-- A clock that was set back"),
    ],
)
def test_a_release_waits_for_who_is_just_coming_and_tells_it(
    interlock_url: str, first: Client, paused: Client, ear: Client, function: str, before: str
) -> None:
    def come() -> Answer:
        alone = function == "acquire_v1"
        return paused.wait("feeds", listener=EAR) if alone else paused.ask_many(["feeds"], wait=True, listener=EAR)[0]

    held = first.acquire("feeds")
    with pause(interlock_url, function, before=before) as go:
        with meanwhile(interlock_url, paused, come) as coming:
            with meanwhile(interlock_url, first, lambda: first.release(held)) as releasing:
                go()
    assert (coming.result().status, releasing.result()) == ("busy", "released")
    assert knows_its_turn(interlock_url, ear, coming.result())


def test_who_leaves_while_a_release_calls_it_passes_the_call_on(
    interlock_url: str, first: Client, second: Client, paused: Client, ear: Client
) -> None:
    held = paused.acquire("feeds")
    leaver, stayer = first.wait("feeds", listener=EAR), second.wait("feeds", listener=EAR)
    with pause(interlock_url, "offer_v1", before="RETURN QUERY") as go:
        with meanwhile(interlock_url, paused, lambda: paused.release(held)):
            with meanwhile(interlock_url, first, lambda: first.abandon(leaver), blocked=False):
                go()
    assert knows_its_turn(interlock_url, ear, stayer)


def test_a_release_that_comes_while_somebody_leaves_calls_the_next(
    interlock_url: str, first: Client, second: Client, paused: Client, ear: Client
) -> None:
    held = first.acquire("feeds")
    leaver, stayer = paused.wait("feeds", listener=EAR), second.wait("feeds", listener=EAR)
    with pause(interlock_url, "abandon_many_v1", before="IF passed_on IS NOT NULL") as go:
        with meanwhile(interlock_url, paused, lambda: paused.abandon(leaver)):
            with meanwhile(interlock_url, first, lambda: first.release(held), blocked=False):
                go()
    assert knows_its_turn(interlock_url, ear, stayer)


def test_who_comes_while_a_call_is_passed_on_is_not_taken_for_dead(
    interlock_url: str, first: Client, second: Client, paused: Client, ear: Client
) -> None:
    held = first.acquire("feeds")
    leaver = paused.wait("feeds", listener=EAR)
    first.release(held)
    with pause(interlock_url, "offer_v1", before="WITH dead") as go:
        with meanwhile(interlock_url, paused, lambda: paused.abandon(leaver)):
            comer = second.wait("feeds", listener=EAR)
            go()
    assert knows_its_turn(interlock_url, ear, settled(second, comer))


def test_who_comes_while_a_lease_is_broken_is_told_to_ask_again(
    interlock_url: str, first: Client, second: Client, paused: Client, ear: Client
) -> None:
    first.acquire("feeds")
    with pause(interlock_url, "break_v1", before="RETURN QUERY SELECT lease.token") as go:
        with meanwhile(interlock_url, paused, lambda: paused.break_open("feeds", immediate=True)):
            comer = second.wait("feeds", listener=EAR)
            go()
    assert knows_its_turn(interlock_url, ear, settled(second, comer))


def test_an_earlier_arrival_that_commits_late_keeps_its_place(
    interlock_url: str, first: Client, second: Client, paused: Client, ear: Client
) -> None:
    """The lease is free and guarded, so everyone who comes looks through the queue and removes the dead."""
    held = first.acquire("feeds")
    with Client(interlock_url, "guard") as guard, guard.connection.transaction():
        guard.guard(held)
        first.release(held)
        set_clock(interlock_url, 10)
        with pause(interlock_url, "offer_v1", before="WITH dead") as go:
            with meanwhile(interlock_url, paused, lambda: paused.wait("feeds", listener=EAR)) as asking:
                set_clock(interlock_url, 9.5)
                earlier = second.wait("feeds", listener=EAR)
                go()
    in_order = [grant_id for grant_id, _ in queue(interlock_url, "feeds")]
    assert in_order == [earlier.grant_id, asking.result().grant_id]


def test_an_offer_that_nobody_took_up_is_not_made_again_past_a_release_under_way(
    interlock_url: str, first: Client, second: Client, paused: Client, ear: Client
) -> None:
    """Whoever released looks after it a second later; meanwhile the next one has taken the lease and releases it."""
    held = paused.acquire("feeds")
    waiter = second.wait("feeds", listener=EAR)
    with pause(interlock_url, "offer_v1", before="RETURN QUERY") as go:
        with meanwhile(interlock_url, paused, lambda: paused.release(held)):
            assert first.run("SELECT interlock.offer_v1('{feeds}', NULL)") == []
            go()
    assert knows_its_turn(interlock_url, ear, waiter)
