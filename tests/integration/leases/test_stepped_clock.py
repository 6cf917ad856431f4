"""A database clock that was set forward or back, by hand or by a bad time server. A slewed clock does no harm."""

import pytest

from support.postgres import execute
from support.sql_leases import acquire, ask, renew, row, set_clock


def test_a_clock_that_was_set_back_does_not_prolong_a_dead_holders_lease_beyond_its_ttl(
    interlock_url: str,
) -> None:
    set_clock(interlock_url, 3600)
    dead = acquire(interlock_url, "feeds", ttl=30)
    set_clock(interlock_url, 0)
    assert ask(interlock_url, "feeds", ttl=30).status == "busy"
    assert ask(interlock_url, "feeds", ttl=30).retry_after == 30
    set_clock(interlock_url, 29)
    assert ask(interlock_url, "feeds", ttl=30).status == "busy"
    set_clock(interlock_url, 30)
    assert acquire(interlock_url, "feeds", ttl=30).token > dead.token


def test_a_live_holder_keeps_its_lease_after_the_clock_was_set_back(interlock_url: str) -> None:
    set_clock(interlock_url, 3600)
    grant = acquire(interlock_url, "feeds", ttl=30)
    set_clock(interlock_url, 0)
    assert renew(interlock_url, grant, ttl=30) == "renewed"
    assert row(interlock_url, "feeds").expires_at == "2031-01-01 00:00:30+00"


ASK_IN_A_BATCH = """
    SELECT status FROM interlock.acquire_many_v1(
        '{feeds,reports}', ARRAY[gen_random_uuid(), gen_random_uuid()], '{30,30}', '{NULL,NULL}', '{false,false}',
        'a test', NULL, NULL, NULL)
"""


def test_a_slightly_slow_clock_changes_no_lease(interlock_url: str) -> None:
    set_clock(interlock_url, 0.5)
    for name in ("feeds", "reports"):
        acquire(interlock_url, name, ttl=30)
    before = row(interlock_url, "feeds")
    set_clock(interlock_url, 0)
    assert ask(interlock_url, "feeds", ttl=30).status == "busy"
    assert execute(interlock_url, ASK_IN_A_BATCH) == [("busy",), ("busy",)]
    assert row(interlock_url, "feeds") == before


@pytest.mark.parametrize("steps", [[3600, 0, 3600], [0, 0, 0], [0, -3600, 3600]])
def test_tokens_increase_with_any_clock(interlock_url: str, steps: list[float]) -> None:
    tokens = []
    for step in steps:
        set_clock(interlock_url, step)
        ask(interlock_url, "feeds", ttl=30)  # caps an expiry that a clock that was set back left far in the future
        set_clock(interlock_url, step + 30)
        tokens.append(acquire(interlock_url, "feeds", ttl=30).token)
    assert tokens == sorted(set(tokens))
