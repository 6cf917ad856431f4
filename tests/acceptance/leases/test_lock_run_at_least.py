"""`lock run --at-least`: the lease outlives its command, by the store's clock, with any end of the processes."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from support.lock_commands import is_held, is_waited_for, line_of, seen
from support.programs import INTERLOCK, environment, interlock, started
from support.waiting import eventually

RUN = ("lock", "run", "feeds")


def kept_for(url: str) -> float:
    """Returns the seconds from the acquisition to the expiry, by the database."""
    found = seen(url)
    assert found.expires_at is not None, "it was released"
    return (found.expires_at - found.acquired_at).total_seconds()


def test_the_lease_stays_held_after_a_short_command_and_is_free_afterwards(interlock_url: str) -> None:
    done = interlock(*RUN, "--ttl", "30", "--at-least", "3s", "--", "echo", "ran", url=interlock_url)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert is_held(interlock_url)
    assert 3 <= kept_for(interlock_url) < 4
    second = interlock(*RUN, "--no-wait", "--at-least", "3s", "--", "echo", "ran", url=interlock_url)
    assert (second.returncode, second.stdout) == (75, "")
    eventually(lambda: not is_held(interlock_url))
    assert interlock(*RUN, "--no-wait", "--", "echo", "ran", url=interlock_url).stdout == "ran\n"


def test_a_command_that_fails_keeps_it_too(interlock_url: str) -> None:
    assert interlock(*RUN, "--at-least", "1m", "--", "false", url=interlock_url).returncode == 1
    assert 60 <= kept_for(interlock_url) < 61
    assert '{"at_least": "60s"}' in interlock("why", "feeds", url=interlock_url).stdout


def test_a_command_that_takes_longer_is_followed_by_the_release(interlock_url: str) -> None:
    assert interlock(*RUN, "--at-least", "500ms", "--", "sleep", "0.7", url=interlock_url).returncode == 0
    assert seen(interlock_url).expires_at is None


@pytest.mark.parametrize("renewed", [False, True])
def test_killed_it_leaves_the_lease_held_for_that_time(interlock_url: str, renewed: bool) -> None:
    command = ("--", "bash", "-c", "echo ready; sleep 300")
    with started(*RUN, "--ttl", "1", "--at-least", "1m", *command, url=interlock_url) as program:
        assert line_of(program) == "ready"
        if renewed:
            before = seen(interlock_url).renewed_at
            eventually(lambda: seen(interlock_url).renewed_at > before)
        os.kill(program.process.pid, signal.SIGKILL)
        program.end()
    assert kept_for(interlock_url) >= 60


def test_after_a_hand_over_nothing_runs_before_the_lease_is_held_for_that_time(interlock_url: str) -> None:
    """A lease that is handed over is held for a second at first."""
    with started(*RUN, "--", "bash", "-c", "echo ready; sleep 300", url=interlock_url) as first:
        assert line_of(first) == "ready"
        with started(*RUN, "--at-least", "1m", "--", "bash", "-c", "echo begun; sleep 99", url=interlock_url) as second:
            eventually(lambda: is_waited_for(interlock_url))
            first.send(signal.SIGTERM)
            assert line_of(second) == "begun"
            os.kill(second.process.pid, signal.SIGKILL)
            second.end()
        first.end()
    assert kept_for(interlock_url) >= 60


def test_a_waiter_has_it_when_the_time_is_over(interlock_url: str) -> None:
    assert interlock(*RUN, "--at-least", "2s", "--", "true", url=interlock_url).returncode == 0
    first = seen(interlock_url)
    assert interlock(*RUN, "--timeout", "20s", "--", "true", url=interlock_url).returncode == 0
    assert (seen(interlock_url).acquired_at - first.acquired_at).total_seconds() >= 2


def test_a_broken_lease_is_not_kept(interlock_url: str) -> None:
    command = ("--", "bash", "-c", "echo ready; sleep 300")
    with started(*RUN, "--ttl", "2", "--at-least", "1m", *command, url=interlock_url) as first:
        assert line_of(first) == "ready"
        assert interlock("lease", "break", "feeds", "--yes", url=interlock_url).returncode == 0
        assert first.end()[0] == 74
    assert interlock(*RUN, "--no-wait", "--", "echo", "ran", url=interlock_url).stdout == "ran\n"


def test_in_a_sqlite_file_it_is_the_same(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/leases.db"
    began = time.monotonic()
    assert interlock(*RUN, "--at-least", "2s", "--", "true", url=url).returncode == 0
    assert interlock(*RUN, "--no-wait", "--", "true", url=url).returncode == 75
    assert interlock(*RUN, "--timeout", "20s", "--", "true", url=url).returncode == 0
    assert time.monotonic() - began >= 2


def test_a_ttl_that_is_too_short_is_refused_as_always() -> None:
    done = interlock(*RUN, "--ttl", "100ms", "--at-least", "5s", "--", "true", url="postgresql://127.0.0.1:1/shop")
    assert (done.returncode, "ttl of 0.1 s cannot work" in done.stderr) == (78, True)


@pytest.mark.parametrize(
    ("url", "at_least", "words"),
    [
        ("postgresql://127.0.0.1:1/shop", "2d", "--at-least of 172800 s cannot work"),
        ("dynamodb://locks?region=eu-west-1", "90s", "add max_clock_skew=SECONDS to the URL"),
    ],
)
def test_a_use_that_cannot_work_is_refused(url: str, at_least: str, words: str) -> None:
    done = interlock(*RUN, "--at-least", at_least, "--", "true", url=url)
    assert done.returncode == 78
    assert words in done.stderr


def test_the_documented_crontab_runs_each_job_on_one_of_two_machines(interlock_url: str, tmp_path: Path) -> None:
    """The machines' clocks differ by more than the jobs take: the second begins when the first is done."""
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "lock-run.md").read_text()
    (crontab,) = re.findall(r"```cron\n([^`]+)```", page)
    variable, *jobs = crontab.splitlines()
    assert variable.startswith("INTERLOCK_DATABASE_URL=")
    for job in jobs:
        command = job.split(maxsplit=5)[5]
        assert "%" not in command.replace(r"\%", "")
        ran = tmp_path / "ran"
        ran.write_text("")
        script = tmp_path / "job.sh"
        script.write_text(f"#!/bin/sh\necho ran >>{ran}\n")
        script.chmod(0o755)
        line = command.replace(r"\%", "%").replace("/usr/local/bin/interlock", str(INTERLOCK))
        line = re.sub(r"/opt/shop/\w+\.sh", str(script), line)
        statuses = [
            subprocess.run(["/bin/sh", "-c", line], env=environment(interlock_url), check=False, timeout=50).returncode
            for _ in range(2)
        ]
        assert ran.read_text() == "ran\n"
        assert statuses == ([0, 0] if " once " in line else [0, 75])
