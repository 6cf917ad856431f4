"""A server on a new timeline: earlier grants are not trusted, and nothing is granted too soon.

A real promotion is tested with two servers in `test_failover_protocol`. Here only the record of the timeline is
changed.
"""

import pytest

from support.postgres import execute
from support.protocol import LISTENER, Client, queue
from support.sql_leases import row, set_clock


def promote(url: str) -> None:
    execute(url, "UPDATE interlock.lease_epoch SET timeline = timeline - 1")


def since(url: str) -> str:
    return str(execute(url, "SELECT since::text FROM interlock.lease_epoch")[0][0])


@pytest.mark.parametrize("in_a_batch", [False, True])
def test_every_request_is_delayed_for_the_longest_ttl_in_use(
    interlock_url: str, first: Client, second: Client, in_a_batch: bool
) -> None:
    set_clock(interlock_url, 0)
    first.release(first.acquire("slow", ttl=100))
    first.run("SELECT interlock.register_v1('{feeds}')")
    promote(interlock_url)
    for seconds in (0, 60, 99.9):
        set_clock(interlock_url, seconds)
        answer = second.ask_many(["feeds"], ttl=5)[0] if in_a_batch else second.ask("feeds", ttl=5)
        assert answer.status == "held back"
        assert answer.retry_after == pytest.approx(100 - seconds)
    set_clock(interlock_url, 100)
    assert (second.ask_many(["feeds"])[0] if in_a_batch else second.ask("feeds")).status == "granted"


def test_a_longer_ttl_is_delayed_for_longer(interlock_url: str, first: Client) -> None:
    set_clock(interlock_url, 0)
    promote(interlock_url)
    assert first.ask("feeds", ttl=5).status == "held back"
    set_clock(interlock_url, 5)
    assert first.ask("feeds", ttl=10).status == "held back"
    assert first.ask("feeds", ttl=5).status == "granted"


def test_an_earlier_grant_is_not_renewed_resent_or_trusted_again(interlock_url: str, first: Client) -> None:
    set_clock(interlock_url, 0)
    held = first.acquire("feeds", ttl=100)
    promote(interlock_url)
    assert first.renew(held, ttl=100) == "lost"
    assert first.ask("feeds", grant_id=held.grant_id).status == "held back"
    set_clock(interlock_url, 99)
    assert first.renew(held) == "lost"
    assert row(interlock_url, "feeds").expires_at == "2031-01-01 00:01:40+00"


def test_no_request_queues_meanwhile(interlock_url: str, first: Client, listening: Client) -> None:
    set_clock(interlock_url, 0)
    first.acquire("feeds", ttl=30)
    promote(interlock_url)
    assert first.wait("feeds", listener=LISTENER).status == "held back"
    assert queue(interlock_url, "feeds") == []


def test_the_change_is_recorded_once(interlock_url: str, first: Client, second: Client) -> None:
    set_clock(interlock_url, 0)
    promote(interlock_url)
    first.ask("feeds")
    set_clock(interlock_url, 3)
    second.ask_many(["feeds"])
    assert since(interlock_url) == "2031-01-01 00:00:00+00"


def test_a_clock_that_is_set_back_prolongs_the_delay_at_most_once(interlock_url: str, first: Client) -> None:
    set_clock(interlock_url, 3600)
    promote(interlock_url)
    assert first.ask("feeds", ttl=30).status == "held back"
    set_clock(interlock_url, 0)
    assert first.ask("feeds", ttl=30).retry_after == 30
    set_clock(interlock_url, 30)
    held = first.acquire("feeds", ttl=30)
    assert first.renew(held) == "renewed"
