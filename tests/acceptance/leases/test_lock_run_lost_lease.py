"""`interlock lock run` killed, stopped, cut off or broken: no process of its command runs beside the next one."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from support.lock_commands import (
    FAMILY,
    end_every_session,
    family_of,
    is_gone,
    is_waited_for,
    line_of,
    seen,
)
from support.pooler import pooled
from support.postgres import execute
from support.programs import Program, interlock, started
from support.proxy import cable_to
from support.waiting import eventually

RUN = ("lock", "run", "feeds")


def reporting_command(family: list[int]) -> list[str]:
    """A command that prints those of these processes that still run."""
    pids = " ".join(map(str, family))
    return ["bash", "-c", f"for pid in {pids}; do kill -0 $pid 2>/dev/null && echo $pid; done; true"]


def wait_for_renewal(url: str) -> None:
    before = seen(url).renewed_at
    eventually(lambda: seen(url).renewed_at > before)


@contextmanager
def family_and_successor(url: str, ttl: float) -> Iterator[tuple[Program, list[int], Program]]:
    """A command with descendants, and a waiting one that prints those of them that still run."""
    with started(*RUN, "--ttl", str(ttl), "--", "bash", "-c", FAMILY, url=url) as first:
        family = family_of(first)
        with started(*RUN, "--ttl", str(ttl), "--", *reporting_command(family), url=url) as second:
            eventually(lambda: is_waited_for(url))
            yield first, family, second


def test_a_killed_interlock_takes_its_command_along_and_the_lease_expires(
    interlock_url: str, record_property: Callable[[str, object], None]
) -> None:
    with family_and_successor(interlock_url, ttl=5) as (first, family, second):
        first.send(signal.SIGKILL)
        expires_at = seen(interlock_url).expires_at
        assert expires_at is not None
        eventually(lambda: all(map(is_gone, family)))
        assert second.end()[:2] == (0, "")
    late = (seen(interlock_url).acquired_at - expires_at).total_seconds()
    assert late >= 0, "by the database's clock, no process has it before"
    record_property("figure", f"lock run: the next had the lease {late * 1000:.0f} ms after the killed one's TTL ended")


@pytest.mark.exhaustive
def test_when_interlock_is_stopped_the_command_is_killed_before_another_has_the_lease(interlock_url: str) -> None:
    with family_and_successor(interlock_url, ttl=5) as (first, family, second):
        first.send(signal.SIGSTOP)
        assert second.end()[:2] == (0, ""), "none of them still ran"
        assert all(map(is_gone, family))
        first.send(signal.SIGCONT)
        status, _, error = first.end()
    assert status == 74
    assert "is not held any more" in error


@pytest.mark.exhaustive
def test_a_command_may_run_longer_than_the_ttl(interlock_url: str) -> None:
    with started(*RUN, "--ttl", "5", "--", "bash", "-c", FAMILY, url=interlock_url) as program:
        family = family_of(program)
        beyond = seen(interlock_url).acquired_at + timedelta(seconds=5)
        eventually(lambda: seen(interlock_url).renewed_at > beyond)
        assert not any(map(is_gone, family))
        program.send(signal.SIGTERM)
        assert program.end()[0] == 143


@pytest.mark.exhaustive
def test_ended_database_sessions_do_no_harm(interlock_url: str) -> None:
    with started(*RUN, "--ttl", "4", "--", "bash", "-c", FAMILY, url=interlock_url) as program:
        family = family_of(program)
        for _ in range(3):
            eventually(lambda: end_every_session(interlock_url))
            wait_for_renewal(interlock_url)
        assert not any(map(is_gone, family))
        program.send(signal.SIGTERM)
        assert program.end()[0] == 143


@pytest.mark.exhaustive
def test_when_interlock_is_cut_off_the_command_is_killed_before_another_has_the_lease(interlock_url: str) -> None:
    """Interlock ends as well, although the lease cannot be released."""
    with (
        cable_to(interlock_url) as (cable, cut_url),
        started(*RUN, "--ttl", "5", "--", "bash", "-c", FAMILY, url=cut_url) as first,
    ):
        family = family_of(first)
        with started(*RUN, "--", *reporting_command(family), url=interlock_url) as second:
            eventually(lambda: is_waited_for(interlock_url))
            cable.cut()
            assert second.end()[:2] == (0, ""), "none of them still ran"
            status, _, error = first.end()
    assert status == 74
    assert "no renewal was confirmed in time" in error


@pytest.mark.exhaustive
def test_through_a_pooler_in_transaction_mode_it_is_the_same(interlock_url: str) -> None:
    with pooled(interlock_url, "transaction") as url, family_and_successor(url, ttl=5) as (first, family, second):
        wait_for_renewal(interlock_url)
        assert not any(map(is_gone, family))
        first.send(signal.SIGKILL)
        assert second.end()[:2] == (0, "")


def test_a_waiter_whose_sessions_are_ended_gets_its_turn(interlock_url: str) -> None:
    with started(*RUN, "--", "bash", "-c", "echo ready; exec sleep 300", url=interlock_url) as first:
        assert line_of(first) == "ready"
        with started(*RUN, "--", "echo", "ran", url=interlock_url) as second:
            eventually(lambda: is_waited_for(interlock_url))
            eventually(lambda: end_every_session(interlock_url))
            first.send(signal.SIGTERM)
            assert second.end()[:2] == (0, "ran\n")


@pytest.mark.exhaustive
def test_a_broken_lease_stops_the_command_with_all_that_it_started(interlock_url: str) -> None:
    with family_and_successor(interlock_url, ttl=4) as (first, family, second):
        done = interlock("lease", "break", "feeds", "--yes", "--reason", "stuck", url=interlock_url)
        assert done.returncode == 0, done.stderr
        status, _, error = first.end()
        assert status == 74
        assert "is not held any more" in error
        assert all(map(is_gone, family))
        assert second.end()[:2] == (0, "")
    recorded = execute(interlock_url, "SELECT name, immediate, reason FROM interlock.lease_intervention")
    assert recorded == [("feeds", False, "stuck")]


def test_a_lost_lease_asks_the_command_to_end_in_good_order(interlock_url: str) -> None:
    trap = "trap 'echo tidied; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    with started(*RUN, "--ttl", "4", "--", "bash", "-c", trap, url=interlock_url) as program:
        assert line_of(program) == "ready"
        assert interlock("lease", "break", "feeds", "--yes", url=interlock_url).returncode == 0
        status, output, _ = program.end()
    assert (status, output) == (74, "tidied\n")


def test_the_next_command_runs_as_soon_as_one_whose_lease_was_broken_has_stopped(interlock_url: str) -> None:
    """The first is notified at its next renewal, and releases; otherwise the second would wait for most of the ttl."""
    with started(*RUN, "--ttl", "8", "--", "bash", "-c", "echo ready; sleep 300", url=interlock_url) as first:
        assert line_of(first) == "ready"
        with started(*RUN, "--", "echo", "ran", url=interlock_url) as second:
            eventually(lambda: is_waited_for(interlock_url))
            assert interlock("lease", "break", "feeds", "--yes", "--reason", "stuck", url=interlock_url).returncode == 0
            status, _, error = first.end()
            stopped_at = time.monotonic()
            assert second.end()[:2] == (0, "ran\n")
            assert time.monotonic() - stopped_at < 3, "of the ttl, five seconds or more are left"
    assert status == 74
    [line] = [line for line in error.splitlines() if line.startswith("interlock: ")]
    assert "it was broken by postgres/" in line
    assert ": stuck: stop the work that it protects." in line
