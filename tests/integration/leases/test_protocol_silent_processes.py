"""A process that was cut off still has its session in the server. All its waiters are detected together."""

from collections.abc import Iterator

import pytest

from support.protocol import LISTENER, Client
from support.sql_leases import set_clock

OTHER_EAR = 8


@pytest.fixture
def other_listening(interlock_url: str) -> Iterator[Client]:
    with Client(interlock_url, "other ear") as client:
        assert client.run("SELECT interlock.listen_v1(%s)", OTHER_EAR) == [(True,)]
        yield client


def test_all_waiters_of_a_silent_process_are_passed_over_when_one_does_not_come(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client, other_listening: Client
) -> None:
    set_clock(interlock_url, 0)
    held = first.acquire("feeds")
    for _ in range(5):
        second.wait("feeds", listener=LISTENER)
    set_clock(interlock_url, 0.1)
    live = third.wait("feeds", listener=OTHER_EAR)
    assert first.release(held) == "released"
    set_clock(interlock_url, 1.2)
    assert third.run("SELECT interlock.offer_v1('{feeds}', %s)", OTHER_EAR)
    assert listening.notified()[1:] == [None]  # after the one that was notified, all are given up
    assert third.wait("feeds", listener=OTHER_EAR, grant_id=live.grant_id).status == "granted"


def test_a_waiter_that_asks_again_is_not_skipped_any_more(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client, other_listening: Client
) -> None:
    set_clock(interlock_url, 0)
    held, other = first.acquire("feeds"), first.acquire("reports")
    second.wait("feeds", listener=LISTENER)
    patient = second.wait("reports", listener=LISTENER)
    first.release(held)
    set_clock(interlock_url, 1.1)
    third.run("SELECT interlock.offer_v1('{feeds}', NULL)")
    assert second.wait("reports", listener=LISTENER, grant_id=patient.grant_id).status == "busy"
    assert third.wait("reports", listener=OTHER_EAR).status == "busy"
    assert first.release(other) == "released"
    assert second.wait("reports", listener=LISTENER, grant_id=patient.grant_id).status == "granted"
