"""What its holder let go of and wants again at once is granted anew, by one statement; nothing else is."""

from uuid import uuid4

import psycopg
import pytest

from support.granting_anew import ONCE_LOCKED, Again, alone, alone_and_in_a_batch, granted, in_a_batch_of_one
from support.postgres import execute
from support.protocol import EAR, Client, stopped
from support.sql_leases import row, set_clock


@alone_and_in_a_batch
def test_it_is_held_as_after_a_release_and_an_acquire(
    interlock_url: str, first: Client, second: Client, again: Again
) -> None:
    set_clock(interlock_url, 0)
    held = first.acquire("feeds", ttl=30)
    execute(interlock_url, "UPDATE interlock.lease SET metadata = '{}', host = 'there', pid = 7")
    set_clock(interlock_url, 10)
    anew = granted(again(second, held, ttl=60))
    assert row(interlock_url, "feeds") == (
        anew.token, anew.grant_id, "2031-01-01 00:00:10+00", "2031-01-01 00:01:10+00",
    )  # fmt: skip
    of_whom = (
        "SELECT holder, host, pid, metadata, ttl, acquired_at = renewed_at FROM interlock.lease WHERE name = 'feeds'"
    )
    assert execute(interlock_url, of_whom) == [("second", None, None, None, 60, True)]
    assert (first.renew(held), first.release(held)) == ("lost", "lost")
    assert (second.renew(anew), second.release(anew)) == ("renewed", "released")


def test_what_others_see_of_it_is_the_new_holders(interlock_url: str, first: Client) -> None:
    held = first.acquire("feeds")
    ids = uuid4(), uuid4()
    first.run("SELECT interlock.again_v1(%s, %s, %s, %s, 30, 'me', '{\"a\": 1}', 'here', 8)", *held.triple, ids[0])
    seen = "SELECT holder, host, pid, metadata FROM interlock.lease"
    assert execute(interlock_url, seen) == [("me", "here", 8, {"a": 1})]
    first.run(
        "SELECT interlock.again_many_v1('{feeds}', ARRAY[%s::bigint], ARRAY[%s::uuid], ARRAY[%s::uuid], '{30}',"
        " ARRAY['{\"b\": 2}'::jsonb], 'us', 'there', 9)",
        row(interlock_url, "feeds").token, *ids,
    )  # fmt: skip
    assert execute(interlock_url, seen) == [("us", "there", 9, {"b": 2})]


@alone_and_in_a_batch
def test_a_grant_that_differs_in_one_thing_touches_nothing(
    interlock_url: str, first: Client, second: Client, again: Again
) -> None:
    held = first.acquire("feeds")
    before = row(interlock_url, "feeds")
    for wrong in (
        held._replace(token=held.token - 1),
        held._replace(token=held.token + 1),
        held._replace(grant_id=uuid4()),
        held._replace(name="nobody's"),
    ):
        assert again(second, wrong) is None
        assert row(interlock_url, "feeds") == before
    assert first.renew(held) == "renewed"


@alone_and_in_a_batch
def test_what_was_released_belongs_to_nobody_who_knows_no_grant(
    interlock_url: str, first: Client, again: Again
) -> None:
    held = first.acquire("feeds")
    first.release(held)
    before = row(interlock_url, "feeds")
    assert again(first, held) is None
    assert again(first, held._replace(grant_id=None)) is None  # type: ignore[arg-type]
    assert row(interlock_url, "feeds") == before


@alone_and_in_a_batch
def test_it_is_granted_anew_once(interlock_url: str, first: Client, again: Again) -> None:
    held = first.acquire("feeds")
    anew = granted(again(first, held))
    assert again(first, held) is None
    assert row(interlock_url, "feeds")[:2] == (anew.token, anew.grant_id)


def test_of_several_in_a_batch_one_is_granted_anew(interlock_url: str, first: Client) -> None:
    held = first.acquire("feeds")
    (anew,) = [answer for answer in first.again_many([held, held, held]) if answer]
    assert row(interlock_url, "feeds")[:2] == (anew.token, anew.grant_id)


@alone_and_in_a_batch
def test_after_a_lost_answer_a_resend_finds_the_new_grant(
    interlock_url: str, first: Client, second: Client, again: Again
) -> None:
    anew = granted(again(first, first.acquire("feeds")))
    before = row(interlock_url, "feeds")
    assert second.ask("feeds", grant_id=anew.grant_id)[:4] == anew[:4]
    assert second.ask_many(["feeds"], grant_ids=[anew.grant_id])[0][:4] == anew[:4]
    assert row(interlock_url, "feeds") == before


@alone_and_in_a_batch
def test_the_token_grows_also_when_the_clock_was_set_back(interlock_url: str, first: Client, again: Again) -> None:
    set_clock(interlock_url, 3600)
    held = first.acquire("feeds")
    set_clock(interlock_url, 7200)
    later = granted(again(first, held))
    set_clock(interlock_url, 0)
    back = granted(again(first, later))
    assert held.token < later.token < back.token < granted(again(first, back)).token


@alone_and_in_a_batch
def test_it_counts_from_when_it_has_the_row(interlock_url: str, first: Client, again: Again) -> None:
    set_clock(interlock_url, 0)
    held = first.acquire("feeds")
    with stopped(interlock_url, first, lambda: again(first, held, ttl=30), **ONCE_LOCKED[again]) as changing:
        set_clock(interlock_url, 20)
    assert granted(changing.result()).token > held.token
    assert row(interlock_url, "feeds").expires_at == "2031-01-01 00:00:50+00"


@alone_and_in_a_batch
def test_a_grant_that_has_expired_is_granted_anew_until_another_has_it(
    interlock_url: str, first: Client, second: Client, again: Again
) -> None:
    set_clock(interlock_url, 0)
    held = first.acquire("feeds", ttl=30)
    set_clock(interlock_url, 40)
    anew = granted(again(first, held, ttl=30))
    set_clock(interlock_url, 80)
    taken = second.acquire("feeds", ttl=30)
    assert again(first, anew) is None
    assert second.renew(taken) == "renewed"


@alone_and_in_a_batch
def test_what_a_person_took_is_not_granted_anew(interlock_url: str, first: Client, again: Again) -> None:
    for immediate in (False, True):
        execute(interlock_url, "UPDATE interlock.lease SET grant_id = NULL, expires_at = '-infinity'")
        held = first.acquire("feeds")
        first.break_open("feeds", immediate=immediate)
        before = row(interlock_url, "feeds")
        assert again(first, held) is None
        assert row(interlock_url, "feeds") == before


@alone_and_in_a_batch
def test_who_was_handed_it_has_it_for_its_whole_ttl_when_it_takes_it_again(
    interlock_url: str, first: Client, second: Client, ear: Client, again: Again
) -> None:
    """Who is not known to have heard of its grant has it for a second; this one has been heard of."""
    held = first.acquire("feeds")
    waiter = second.wait("feeds", listener=EAR, direct=True)
    handed = first.hand_on(held)
    assert handed.token
    set_clock(interlock_url, 0)
    anew = granted(again(second, waiter._replace(token=handed.token), ttl=30))
    assert execute(interlock_url, "SELECT listener FROM interlock.lease WHERE name = 'feeds'") == [(None,)]
    assert row(interlock_url, "feeds").expires_at == "2031-01-01 00:00:30+00"
    assert second.renew(anew) == "renewed"


@pytest.mark.parametrize("again", [alone, in_a_batch_of_one], ids=["alone", "in a batch"])
def test_nothing_is_granted_anew_on_another_timeline(interlock_url: str, first: Client, again: Again) -> None:
    set_clock(interlock_url, 0)
    held = first.acquire("feeds", ttl=100)
    execute(interlock_url, "UPDATE interlock.lease_epoch SET timeline = timeline - 1")
    assert again(first, held, ttl=1) is None
    set_clock(interlock_url, 99)
    assert again(first, held, ttl=1) is None
    assert row(interlock_url, "feeds").token == held.token


@alone_and_in_a_batch
def test_nothing_is_granted_anew_while_a_lease_of_another_timeline_could_be_trusted(
    interlock_url: str, first: Client, again: Again
) -> None:
    set_clock(interlock_url, 0)
    held = first.acquire("feeds", ttl=1000)
    first.acquire("another", ttl=1000)
    execute(interlock_url, "UPDATE interlock.lease_epoch SET since = interlock.now_v1(), longest_ttl = 100")
    for seconds, ttl in ((0, 30), (99.9, 30), (149.9, 150)):
        set_clock(interlock_url, seconds)
        assert again(first, held, ttl=ttl) is None
    set_clock(interlock_url, 100)
    assert again(first, held, ttl=100) is not None


@pytest.mark.parametrize(("set_to", "becomes"), [("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")])
@alone_and_in_a_batch
def test_it_waits_for_the_disk_whatever_the_role_is_set_to(
    interlock_url: str, again: Again, set_to: str, becomes: str
) -> None:
    with Client(interlock_url, "careless", options=f"-c synchronous_commit={set_to}") as careless:
        held = careless.acquire("feeds")
        careless.acquire("another")
        with careless.connection.transaction():
            assert again(careless, held) is not None
            assert careless.run("SHOW synchronous_commit") == [(becomes,)]
        with careless.connection.transaction():
            assert again(careless, held) is None
            assert careless.run("SHOW synchronous_commit") == [(set_to,)]


def test_what_is_not_granted_anew_writes_nothing(first: Client, second: Client) -> None:
    held = first.acquire("feeds")
    second.wait("feeds")
    with first.connection.transaction():
        assert first.again(held) is None
        assert first.again_many([held]) == [None]
        assert first.again(held._replace(token=1)) is None
        assert first.run("SELECT pg_current_xact_id_if_assigned()") == [(None,)]


BAD = [
    "again_v1('feeds', 1, gen_random_uuid(), NULL, 30, 'me')",
    *(f"again_v1('feeds', 1, gen_random_uuid(), gen_random_uuid(), {ttl}, 'me')" for ttl in (
        "NULL", "0", "-1", "0.09", "86401", "'NaN'", "'infinity'")),
    *(f"again_many_v1('{{a,b}}', '{{1,2}}', ARRAY[gen_random_uuid(), NULL], {ids}, {ttls}, NULL, 'me', NULL, 1)"
      for ids, ttls in (
        ("ARRAY[gen_random_uuid()]", "'{30,30}'"),
        ("ARRAY[gen_random_uuid(), NULL]", "'{30,30}'"),
        ("ARRAY[gen_random_uuid(), gen_random_uuid()]", "'{30}'"),
        ("ARRAY[gen_random_uuid(), gen_random_uuid()]", "'{30,NULL}'"),
        ("ARRAY[gen_random_uuid(), gen_random_uuid()]", "'{30,0}'"),
        ("ARRAY[gen_random_uuid(), gen_random_uuid()]", "'{30,NaN}'"),
        ("ARRAY[gen_random_uuid(), gen_random_uuid()]", "'{30,86401}'"))),
]  # fmt: skip


@pytest.mark.parametrize("call", BAD)
def test_what_cannot_be_is_refused(first: Client, call: str) -> None:
    held = first.acquire("feeds")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="needs a name, a grant_id"):
        first.run(f"SELECT interlock.{call}")
    assert first.renew(held) == "renewed"
