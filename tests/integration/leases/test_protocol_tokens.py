"""Tokens of one name only increase, through every change of the lease, its row and the clock."""

from collections.abc import Callable

import pytest

from support.postgres import execute
from support.protocol import Answer, Client, meanwhile, stopped
from support.sql_leases import row, set_clock

Happening = Callable[[str, Client, Answer], object]


def released(url: str, client: Client, held: Answer) -> None:
    assert client.release(held) == "released"


def expired(url: str, client: Client, held: Answer) -> None:
    set_clock(url, 3630)


def broken(url: str, client: Client, held: Answer) -> None:
    assert len(client.break_open("feeds", immediate=True)) == 1


def swept(url: str, client: Client, held: Answer) -> None:
    client.release(held)
    set_clock(url, 3600 + 100)
    assert client.run("SELECT interlock.sweep_v1(50)") == [(1,)]


def set_back(url: str, client: Client, held: Answer) -> None:
    client.release(held)
    set_clock(url, 0)


def set_back_and_swept(url: str, client: Client, held: Answer) -> None:
    swept(url, client, held)
    set_clock(url, 0)


def set_back_without_a_release(url: str, client: Client, held: Answer) -> None:
    set_clock(url, 0)
    assert client.ask("feeds").status == "busy"
    set_clock(url, 30)


def taken_in_a_batch(url: str, client: Client, held: Answer) -> None:
    set_clock(url, 3630)
    (held,) = client.ask_many(["feeds"])
    client.release(held)
    set_clock(url, 0)


HAPPENINGS: list[Happening] = [
    released, expired, broken, swept, set_back, set_back_and_swept, set_back_without_a_release, taken_in_a_batch,
]  # fmt: skip


@pytest.mark.exhaustive(beyond=3)
@pytest.mark.parametrize("happens", HAPPENINGS, ids=lambda happens: happens.__name__)
def test_a_token_is_higher_than_every_one_before(interlock_url: str, first: Client, happens: Happening) -> None:
    set_clock(interlock_url, 3600)
    held = first.acquire("feeds", ttl=30)
    happens(interlock_url, first, held)
    again = first.acquire("feeds", ttl=30)
    first.release(again)
    (in_a_batch,) = first.ask_many(["feeds"])
    assert held.token < again.token < in_a_batch.token


def test_after_a_manual_delete_of_the_row_tokens_follow_the_clock(interlock_url: str, first: Client) -> None:
    held = first.acquire("feeds")
    execute(interlock_url, "DELETE FROM interlock.lease")
    assert first.acquire("feeds").token > held.token


def test_a_name_that_is_used_while_it_is_swept_gets_a_higher_token(
    interlock_url: str, first: Client, second: Client
) -> None:
    execute(interlock_url, "ALTER FUNCTION interlock.register_v1(text[]) SET lock_timeout = '20s'")
    set_clock(interlock_url, 3600)
    held = first.acquire("feeds")
    first.release(held)
    set_clock(interlock_url, 0)
    at = {"function": "sweep_v1", "before": "RETURN swept"}
    with (
        stopped(interlock_url, second, lambda: second.run("SELECT interlock.sweep_v1(-3601)"), **at) as sweeping,
        meanwhile(interlock_url, first, lambda: first.run("SELECT interlock.register_v1('{feeds}')")),
    ):
        sweeping.go()
    assert sweeping.result() == [(1,)]
    assert first.acquire("feeds").token > held.token


def test_an_acquire_that_was_rolled_back_leaves_the_lease_as_it_was(
    interlock_url: str, first: Client, second: Client
) -> None:
    first.release(first.acquire("feeds"))
    before = row(interlock_url, "feeds")
    first.run("BEGIN")
    assert first.ask("feeds").status == "granted"
    first.run("ROLLBACK")
    assert row(interlock_url, "feeds") == before
    assert second.ask("feeds").status == "granted"


def test_only_free_unused_names_without_waiters_are_swept(interlock_url: str, first: Client, second: Client) -> None:
    set_clock(interlock_url, 0)
    for name in ("held", "waited for", "unused", "guarded"):
        first.run("SELECT interlock.register_v1(%s)", [name])
    guarded = first.acquire("guarded", ttl=30)
    held, waited_for = first.acquire("held", ttl=3600), first.acquire("waited for", ttl=3600)
    second.wait("waited for")
    first.release(first.acquire("unused", ttl=30))
    set_clock(interlock_url, 4)
    first.release(first.acquire("used", ttl=30))
    with second.connection.transaction():
        second.guard(guarded)
        first.release(guarded)
        assert first.run("SELECT interlock.sweep_v1(3)") == [(1,)]
    left = first.run("SELECT name FROM interlock.lease ORDER BY name")
    assert left == [("guarded",), ("held",), ("used",), ("waited for",)]
    assert (first.renew(held), first.renew(waited_for)) == ("renewed", "renewed")


def test_only_one_sweep_runs_at_a_time(interlock_url: str, first: Client, second: Client) -> None:
    with second.connection.transaction():
        assert second.run("SELECT interlock.sweep_v1(0)") == [(0,)]
        assert first.run("SELECT interlock.sweep_v1(0)") == [(-1,)]


def test_a_sweep_removes_waiters_that_are_gone(first: Client, second: Client, listening: Client) -> None:
    first.acquire("feeds")
    second.wait("feeds", listener=8)
    stays = second.wait("feeds", listener=7)
    first.run("SELECT interlock.sweep_v1(0)")
    assert first.run("SELECT grant_id FROM interlock.waiter") == [(stays.grant_id,)]


def test_a_sweep_passes_offers_of_dead_waiters_to_the_next(
    interlock_url: str, first: Client, second: Client, third: Client, listening: Client
) -> None:
    held = first.acquire("feeds")
    with Client(interlock_url, "short-lived") as short_lived:
        short_lived.listen(8)
        second.wait("feeds", listener=8)
        live = third.wait("feeds", listener=7)
        first.release(held)
        short_lived.end(interlock_url)
    first.run("SELECT interlock.sweep_v1(0)")
    assert listening.notified() == [live.grant_id]
