"""PostgreSQL crashes, or a standby takes over, while leases are released unconfirmed and acquired again at once."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from interlock.embedded import Cluster
from interlock.schema import whole_schema
from support.crashes import careless_server, crash
from support.histories import violations
from support.history_recorder import Event, recorded
from support.lease_hammer import faults, prepare
from support.lease_worker import Worker, ended, workers
from support.postgres import execute
from support.replication import Pair, primary_and_standby
from support.waiting import eventually

NAMES = ["one", "two", "three", "own", "shared"]
GRANTED = """
    SELECT name FROM change WHERE position > %s AND token <> old_token
     GROUP BY name HAVING count(*) >= 10 ORDER BY name
"""
LAST = "SELECT coalesce(max(position), 0) FROM change"
GRANTS = "SELECT DISTINCT name, token, grant_id::text FROM change WHERE token <> old_token"
SINCE_THE_PROMOTION = f"{GRANTS} AND timeline = interlock.timeline_v1()"


@pytest.fixture
def server() -> Iterator[Cluster]:
    with careless_server() as server:
        prepare(server.url())
        execute(server.url(), "CHECKPOINT")
        yield server


@pytest.fixture
def pair() -> Iterator[Pair]:
    with primary_and_standby(synchronous=False) as pair:
        execute(pair.url, whole_schema("interlock"))
        prepare(pair.url)
        pair.wait_caught_up()
        yield pair


@contextmanager
def fast_workers(url: str, directory: Path) -> Iterator[list[Worker]]:
    """A worker whose tasks share statements, one alone, and one that sometimes meets another."""
    start = partial(workers, url, directory, count=1, ttl=2, writes=False)
    brisk = partial(start, brisk=True, linger=0.005)
    with ExitStack() as stack:
        yield [
            *stack.enter_context(brisk(names=["one", "two", "three"], tasks=3, steady=True)),
            *stack.enter_context(brisk(names=["own"], first=1)),
            *stack.enter_context(brisk(names=["shared"], first=2)),
            *stack.enter_context(start(names=["shared"], first=3, linger=0.02, rest=0.2)),
        ]


def all_go_on(url: str) -> None:
    """Return when each lease was granted several times more."""
    [[last]] = execute(url, LAST)
    eventually(lambda: [name for (name,) in execute(url, GRANTED, last)] == sorted(NAMES), within=40)


def all_end(running: Sequence[Worker]) -> None:
    ends = [ended(worker) for worker in running]
    assert [(status, "Traceback" in complaint) for status, complaint in ends] == [(0, False)] * len(running), ends


def known_grants(events: Sequence[Event]) -> set[tuple[str, int, str]]:
    """Returns the grants that a worker has received."""
    return {(event.name, event.token, event.grant_id) for event in events if event.kind == "granted"}


def are_above(url: str, before: set[tuple[str, int, str]], names: Sequence[str]) -> bool:
    """True if the new primary has granted each name, with tokens above all those received `before`."""
    since = execute(url, SINCE_THE_PROMOTION)
    highest = {name: max(token for of, token, _ in before if of == name) for name in names}
    assert {name for name, _, _ in since} == set(names)
    return all(token > highest[name] for name, token, _ in since)


@pytest.mark.exhaustive
def test_no_grant_is_lost_and_no_token_goes_back_in_crashes(server: Cluster, tmp_path: Path) -> None:
    url = server.url(tcp=True)
    with fast_workers(url, tmp_path) as running:
        all_go_on(url)
        for _ in range(4):
            crash(server)
            all_go_on(url)
        all_end(running)
    events = recorded(tmp_path)
    assert violations(events) == []
    assert faults(url) == {}
    assert known_grants(events) - set(execute(url, GRANTS)) == set()


@pytest.mark.exhaustive
def test_after_a_promotion_under_load_grants_are_delayed_and_tokens_go_on_above(pair: Pair, tmp_path: Path) -> None:
    """The standby lacks the newest grants, for it was cut off a while before."""
    with fast_workers(pair.url, tmp_path) as running:
        all_go_on(pair.primary_url)
        pair.freeze()
        all_go_on(pair.primary_url)
        pair.stop_primary()
        pair.promote()
        all_go_on(pair.standby_url)
        all_end(running)
    events = recorded(tmp_path)
    before = known_grants(events) - set(execute(pair.standby_url, SINCE_THE_PROMOTION))
    assert before - set(execute(pair.standby_url, GRANTS)), "nothing was lost"
    assert violations(events) == []
    assert faults(pair.standby_url) == {}
    assert are_above(pair.standby_url, before, NAMES)
