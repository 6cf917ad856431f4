"""`interlock elect`, `semaphore run`, `once`, `every` and `members` as scripts use them."""

import json
import signal
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from interlock import Interlock, errors
from support.lock_commands import FAMILY, family_of, is_gone, is_held, is_waited_for, line_of
from support.postgres import execute
from support.programs import interlock, started
from support.waiting import eventually

RECORDS = "SELECT key, value ->> 'result' FROM interlock.record"


def one_line(error: str) -> str:
    lines = [line for line in error.splitlines() if line.startswith("interlock: ")]
    assert len(lines) == 1, error
    assert "Traceback" not in error
    return lines[0]


def break_lease(url: str, name: str) -> None:
    execute(url, "SELECT interlock.break_v1(%s, true, false, 'a test', 'an operator')", name)


def test_a_leaders_command_is_stopped_with_all_it_started_and_runs_again_in_the_next_term(interlock_url: str) -> None:
    with started("elect", "scheduler", "--ttl", "1", "--", "bash", "-c", FAMILY, url=interlock_url) as leader:
        first = family_of(leader)
        break_lease(interlock_url, "scheduler")
        second = family_of(leader)
        assert all(map(is_gone, first))
        assert not any(map(is_gone, second))
        leader.send(signal.SIGTERM)
        status, _, _ = leader.end()
    assert status == 128 + signal.SIGTERM
    assert all(map(is_gone, second))
    assert not is_held(interlock_url, "scheduler")


def test_a_follower_runs_nothing_until_it_leads(interlock_url: str) -> None:
    with ExitStack() as stack:
        leader = stack.enter_context(
            started("elect", "scheduler", "--ttl", "1", "--", "bash", "-c", "echo leads; sleep 300", url=interlock_url)
        )
        assert line_of(leader) == "leads"
        follower = stack.enter_context(
            started(
                "elect",
                "scheduler",
                "--ttl",
                "1",
                "--",
                "bash",
                "-c",
                "echo $INTERLOCK_LEASE_NAME; exit 5",
                url=interlock_url,
            )
        )
        eventually(lambda: is_waited_for(interlock_url, "scheduler"))
        leader.send(signal.SIGKILL)
        assert follower.end()[:2] == (5, "scheduler\n")


def test_a_follower_stops_on_a_signal(interlock_url: str) -> None:
    with (
        Interlock(interlock_url) as locks,
        locks.lease("scheduler"),
        started("elect", "scheduler", "--", "true", url=interlock_url) as follower,
    ):
        eventually(lambda: is_waited_for(interlock_url, "scheduler"))
        follower.send(signal.SIGTERM)
        assert follower.end()[0] == 128 + signal.SIGTERM


def test_no_more_commands_run_than_there_are_slots(interlock_url: str, tmp_path: Path) -> None:
    run = ("semaphore", "run", "openai", "--slots", "2")
    wait = f"echo $INTERLOCK_LEASE_NAME; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    with ExitStack() as stack:
        programs = [stack.enter_context(started(*run, "--", "bash", "-c", wait, url=interlock_url)) for _ in range(2)]
        assert {line_of(program) for program in programs} == {"openai##slot/0", "openai##slot/1"}
        busy = interlock(*run, "--no-wait", "--", "true", url=interlock_url)
        assert busy.returncode == 75
        assert "'openai' is not available now: `interlock lease list openai` shows its holder" in one_line(busy.stderr)
        assert interlock(*run, "--timeout", "0.2", "--", "true", url=interlock_url).returncode == 75
        third = stack.enter_context(started(*run, "--", "bash", "-c", "exit 3", url=interlock_url))
        (tmp_path / "go").touch()
        assert third.end()[0] == 3
        assert [program.end()[0] for program in programs] == [0, 0]
    wrong = interlock("semaphore", "run", "openai", "--slots", "0", "--", "true", url=interlock_url)
    assert wrong.returncode == 78
    assert "use a whole number from 1 to 1000" in one_line(wrong.stderr)


def test_a_command_that_succeeded_once_is_not_run_again(interlock_url: str, tmp_path: Path) -> None:
    def run(code: str) -> tuple[int, str]:
        done = interlock("once", "bootstrap-v2", "--", "bash", "-c", code, url=interlock_url)
        return done.returncode, done.stdout

    assert run("exit 4") == (4, "")
    assert execute(interlock_url, RECORDS) == []
    assert run("echo ran") == (0, "ran\n")
    assert run("echo ran") == (0, "")
    assert run("exit 4") == (0, "")
    assert execute(interlock_url, RECORDS) == [("bootstrap-v2##once", "true")]
    assert interlock("once", "bootstrap-v3", "--", "echo", "ran", url=interlock_url).stdout == "ran\n"


def test_a_second_run_waits_and_takes_over_if_the_first_dies(interlock_url: str) -> None:
    run = ("once", "bootstrap", "--ttl", "1")
    with started(*run, "--", "bash", "-c", "echo begun; sleep 300", url=interlock_url) as first:
        assert line_of(first) == "begun"
        assert interlock(*run, "--no-wait", "--", "true", url=interlock_url).returncode == 75
        with started(*run, "--", "bash", "-c", "echo taken over", url=interlock_url) as second:
            eventually(lambda: is_waited_for(interlock_url, "bootstrap##once"))
            first.send(signal.SIGKILL)
            assert second.end()[:2] == (0, "taken over\n")
    assert interlock(*run, "--", "false", url=interlock_url).returncode == 0


def test_a_command_is_run_at_each_tick_until_a_signal_comes(interlock_url: str) -> None:
    with started("every", "200ms", "sweep", "--", "bash", "-c", "echo swept; exit 1", url=interlock_url) as program:
        assert [line_of(program) for _ in range(3)] == ["swept"] * 3
        program.send(signal.SIGTERM)
        status, _, error = program.end()
    assert status == 128 + signal.SIGTERM
    assert "Traceback" not in error
    assert "periodic.command_failed" in error
    assert not is_held(interlock_url, "sweep")


def test_a_run_that_is_ended_by_a_signal_is_taken_over(interlock_url: str) -> None:
    with ExitStack() as stack:
        first = stack.enter_context(
            started("every", "200ms", "sweep", "--", "bash", "-c", "echo begun; sleep 300", url=interlock_url)
        )
        assert line_of(first) == "begun"
        second = stack.enter_context(
            started("every", "200ms", "sweep", "--missed", "1", "--", "echo", "taken over", url=interlock_url)
        )
        eventually(lambda: is_waited_for(interlock_url, "sweep"))
        first.send(signal.SIGTERM)
        assert first.end()[0] == 128 + signal.SIGTERM
        assert line_of(second) == "taken over"
        second.send(signal.SIGINT)
        assert second.end()[0] == 128 + signal.SIGINT


def test_a_run_that_lost_its_lease_is_run_again_and_signals_still_work(interlock_url: str) -> None:
    code = "echo begun; sleep 300"
    with started("every", "200ms", "sweep", "--ttl", "1", "--", "bash", "-c", code, url=interlock_url) as program:
        assert line_of(program) == "begun"
        break_lease(interlock_url, "sweep")
        assert line_of(program) == "begun"
        with Interlock(interlock_url) as locks:
            break_lease(interlock_url, "sweep")
            with locks.lease("sweep"):  # so it waits, and runs no command
                eventually(lambda: is_waited_for(interlock_url, "sweep"))
                program.send(signal.SIGTERM)
                assert program.end()[0] == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("now and then", "sweep"), "neither an interval nor a cron expression"),
        (("5m", "sweep", "--missed", "all"), "use 'skip', 'once' or a number"),
        (("* * * * *", "sweep", "--timezone", "Nowhere"), "does not know the time zone"),
        (("5m", "a##b"), "marks Interlock's own"),
    ],
)
def test_an_invalid_schedule_is_refused(interlock_url: str, args: tuple[str, ...], why: str) -> None:
    done = interlock("every", *args, "--", "true", url=interlock_url)
    assert done.returncode == 78
    assert why in one_line(done.stderr)


@pytest.mark.parametrize("command", [("elect", "a"), ("once", "a"), ("every", "5m", "a"), ("semaphore", "run", "a")])
def test_a_missing_command_shows_the_usage(interlock_url: str, command: tuple[str, ...]) -> None:
    slots = ("--slots", "2") if command[0] == "semaphore" else ()
    done = interlock(*command, *slots, url=interlock_url)
    assert done.returncode == 2
    assert "The command stands after two dashes" in done.stderr


def test_members(interlock_url: str) -> None:
    assert interlock("members", "workers", url=interlock_url).stdout == "The group has no members.\n"
    with Interlock(interlock_url, replica="web-1") as locks, locks.join("workers", id="a", metadata={"zone": "\x1b"}):
        text = interlock("members", "workers", url=interlock_url).stdout
        facts = json.loads(interlock("members", "workers", "--json", url=interlock_url).stdout)
    assert text.startswith("a: web-1 (process ")
    assert "\x1b" not in text
    [member] = facts
    assert (member["id"], member["holder"], member["metadata"]) == ("a", "web-1", {"zone": "\x1b"})
    assert set(member) == {"id", "holder", "host", "pid", "metadata", "joined_at", "remaining"}


@pytest.mark.exhaustive
def test_without_the_schema_each_names_the_remedy(database_url: str) -> None:
    for command in (("elect", "a"), ("once", "a"), ("every", "5m", "a"), ("semaphore", "run", "a", "--slots", "2")):
        done = interlock(*command, "--", "true", url=database_url)
        assert done.returncode == 78, done.stderr
        assert "run `interlock schema apply`" in one_line(done.stderr)
    assert interlock("members", "workers", url=database_url).returncode == 78


def test_a_cycle_of_waits_is_shown(interlock_url: str) -> None:
    """Two root objects with different names look like two processes."""
    assert interlock("lease", "waits", url=interlock_url).stdout == "No process waits for a lease.\n"

    def nest(locks: Interlock, outer: str, inner: str, both: threading.Barrier) -> None:
        with suppress(errors.LeaseLost), locks.lease(outer):
            both.wait()
            with locks.lease(inner).acquire(timeout=20):
                pass

    both = threading.Barrier(2)
    with Interlock(interlock_url, replica="web-1") as one, Interlock(interlock_url, replica="web-2") as two:
        threads = [
            threading.Thread(target=nest, args=(one, "a", "b", both)),
            threading.Thread(target=nest, args=(two, "b", "a", both)),
        ]
        for thread in threads:
            thread.start()
        eventually(lambda: is_waited_for(interlock_url, "a") and is_waited_for(interlock_url, "b"))
        text = interlock("lease", "waits", url=interlock_url).stdout
        facts = json.loads(interlock("lease", "waits", "--json", url=interlock_url).stdout)
        break_lease(interlock_url, "a")
        for thread in threads:
            thread.join()
    assert [(wait["lease"], wait["waiter"]["name"], wait["holder"]["name"]) for wait in facts["waits"]] == [
        ("a", "web-2", "web-1"),
        ("b", "web-1", "web-2"),
    ]
    assert [{wait["lease"] for wait in cycle} for cycle in facts["cycles"]] == [{"a", "b"}]
    assert "2 processes wait in a circle." in text
