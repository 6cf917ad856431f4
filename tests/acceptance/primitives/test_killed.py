"""Processes that use elections, read/write leases, once and periodic runs are repeatedly killed with SIGKILL."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from support.histories import counts, holdings, violations
from support.history_recorder import Event, recorded
from support.lease_worker import LEDGER, ledger
from support.postgres import execute
from support.primitive_worker import EFFECTS, RUNS, Job, Team, team
from support.waiting import eventually

pytestmark = pytest.mark.exhaustive

HOLDERS = "SELECT name, pid, token FROM interlock.held_v1(%s)"
WRITTEN = "SELECT 1 FROM ledger WHERE token = %s"


def holders(url: str, prefix: str) -> list[tuple[str, int, int]]:
    return [(name, pid, token) for name, pid, token in execute(url, HOLDERS, prefix)]


def at_work(url: str, team: Team, prefix: str, *, exactly: bool = False) -> tuple[str, int, int]:
    """Returns a worker that holds a lease with the prefix, or that lease, and has written under it."""

    def look() -> tuple[str, int, int] | None:
        team.check()
        found = [holder for holder in holders(url, prefix) if holder[1] in team.workers]
        found = [holder for holder in found if holder[0] == prefix or not exactly]
        return next((holder for holder in found if execute(url, WRITTEN, holder[2])), None)

    held = eventually(look)
    assert held
    return held


def take_overs(events: list[Event], kills: list[tuple[float, int]]) -> list[float]:
    """Returns the seconds from each kill to the next grant."""
    grants = sorted((event.token, event.at) for event in events if event.kind == "granted")
    return [next(at for token, at in grants if token > killed) - killed_at for killed_at, killed in kills]


@pytest.mark.timeout(180)
def test_a_leader_is_killed_fifty_times_and_there_are_never_two(
    interlock_url: str, tmp_path: Path, record_property: Any
) -> None:
    execute(interlock_url, LEDGER)
    job = Job("lead", interlock_url, str(tmp_path), "", name="scheduler")
    kills = []
    with team(job, 5) as candidates:
        for _ in range(50):
            _, pid, token = at_work(interlock_url, candidates, "scheduler")
            kills.append((candidates.kill(pid), token))
        at_work(interlock_url, candidates, "scheduler")
    events, written = recorded(tmp_path), ledger(interlock_url)
    assert violations(events, written) == []
    assert counts(events)["granted"] > 50
    assert len(written) > 50
    took = take_overs(events, kills)
    figure = (
        f"election, ttl 0.5 s, leader killed 50 times: take-over median {median(took):.2f} s, worst {max(took):.2f} s"
    )
    record_property("figure", figure)


def most_at_once(events: list[Event]) -> int:
    """Returns the most slots that were trusted at the same time."""
    marks = []
    for held in holdings(events):
        if held.was_trusted:
            marks += [(held.start, 1), (held.end, -1)]
    level = most = 0
    for _, step in sorted(marks):
        level += step
        most = max(most, level)
    return most


@pytest.mark.timeout(120)
def test_holders_of_slots_and_of_the_admission_lease_are_killed(interlock_url: str, tmp_path: Path) -> None:
    execute(interlock_url, LEDGER)
    names = [f"openai##slot/{number}" for number in range(3)]
    with team(Job("share", interlock_url, str(tmp_path), "", name="openai", number=3, ttl=1.0), 8) as users:
        for _ in range(8):
            _, pid, _ = at_work(interlock_url, users, "openai##slot/")
            users.kill(pid)
            waiter = eventually(
                lambda: [
                    pid
                    for name, pid, _ in holders(interlock_url, "openai")
                    if name == "openai" and pid in users.workers
                ]
            )[0]
            if waiter in users.workers:
                users.kill(waiter)
        before = Counter(event.process for event in recorded(tmp_path) if event.kind == "acknowledged")
        alive = {worker.job.process for worker in users.workers.values()}

        def all_served() -> bool:
            now = Counter(event.process for event in recorded(tmp_path) if event.kind == "acknowledged")
            return all(now[process] >= before[process] + 3 for process in alive)

        eventually(all_served)
    events = [event for event in recorded(tmp_path) if event.name != "openai"]
    assert violations(events, ledger(interlock_url)) == []
    assert {event.name for event in events} == set(names)
    assert most_at_once(events) == 3


@pytest.mark.timeout(120)
def test_readers_and_writers_are_killed_and_every_writer_is_alone(interlock_url: str, tmp_path: Path) -> None:
    execute(interlock_url, LEDGER)
    job = Job("read or write", interlock_url, str(tmp_path), "", name="catalog", number=3, ttl=1.0)
    with team(job, 6) as users:
        for victim in ["catalog##reader/", "catalog"] * 5:
            _, pid, _ = at_work(interlock_url, users, victim, exactly=victim == "catalog")
            users.kill(pid)
        at_work(interlock_url, users, "catalog##reader/")
    events = recorded(tmp_path)
    assert violations(events, ledger(interlock_url)) == []
    names = {event.name for event in events}
    assert names == {"catalog", *(f"catalog##reader/{number}" for number in range(3))}
    for reader in names:
        together = [replace(event, name="one") for event in events if event.name in ("catalog", reader)]
        assert [found for found in violations(together) if found.fault == "two trusted"] == [], reader


@pytest.mark.exhaustive(beyond=1)
@pytest.mark.parametrize("round_", range(3))
def test_a_run_whose_process_was_killed_is_done_once(interlock_url: str, tmp_path: Path, round_: int) -> None:
    execute(interlock_url, EFFECTS)

    def phase(name: str) -> list[str]:
        replicas.check()
        rows = execute(interlock_url, "SELECT process FROM effect WHERE phase = %s ORDER BY position", name)
        return [process for (process,) in rows]

    with team(Job("once", interlock_url, str(tmp_path), "", name="boot", ttl=3.0), 4) as replicas:
        for killed in range(round_ + 1):
            eventually(lambda killed=killed: len(phase("begun")) == killed + 1)  # type: ignore[misc]
            [[_, pid, _]] = [holder for holder in holders(interlock_url, "boot##once") if holder[1] in replicas.workers]
            replicas.kill(pid)
        eventually(lambda: len(phase("begun")) == round_ + 2)
        (tmp_path / "go").touch()
        eventually(lambda: len(phase("result")) == 4)
    assert len(phase("done")) == 1
    assert phase("result") == phase("done") * 4


@pytest.mark.timeout(150)
def test_two_hundred_ticks_with_kills_are_all_run_and_none_twice_at_once(
    interlock_url: str, tmp_path: Path, record_property: Any
) -> None:
    execute(interlock_url, RUNS)
    kills = 0
    done = "SELECT count(DISTINCT tick) FROM run WHERE phase = 'done'"
    job = Job("every", interlock_url, str(tmp_path), "", name="sweep", number=1000, interval=0.1)
    with team(job, 4) as replicas:
        for target in range(15, 200, 15):
            eventually(lambda target=target: execute(interlock_url, done)[0][0] >= target)  # type: ignore[misc]
            runner = eventually(
                lambda: [pid for name, pid, _ in holders(interlock_url, "sweep") if pid in replicas.workers]
            )[0]
            replicas.kill(runner)
            kills += 1
        eventually(lambda: execute(interlock_url, done)[0][0] >= 200)
    rows = execute(interlock_url, "SELECT tick, token, phase, at FROM run ORDER BY position")
    ticks = [tick for tick, _, phase, _ in rows if phase == "done"]
    assert [later for earlier, later in pairwise(ticks) if later < earlier] == [], "in order"
    every = sorted(set(ticks))
    assert all(abs((later - earlier).total_seconds() - 0.1) < 0.001 for earlier, later in pairwise(every)), (
        "all of them"
    )
    lost = len(list(tmp_path.glob("*.lost")))
    assert len(ticks) - len(every) <= kills + lost, "again only after a kill, or after a slow run lost its lease"
    tokens = [token for _, token, _, _ in rows]
    assert tokens == sorted(tokens), "no run wrote after the next had begun"
    again = len(rows) - 2 * len(every)
    runs = [
        (begun[3], ended[3])
        for begun, ended in pairwise(rows)
        if (begun[2], ended[2], begun[1]) == ("begun", "done", ended[1])
    ]
    assert len(runs) == len(ticks)
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(runs)), "one at a time"
    record_property(
        "figure",
        f"every 0.1 s, 4 replicas, {kills} kills, {lost} losses: {len(every)} ticks run, {again} rows of repeated runs",
    )
