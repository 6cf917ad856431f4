"""`interlock lock run` in a script: the command's environment, its end, and refusals to start it."""

import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID

import pytest

from interlock.embedded import find_binaries
from support.lock_commands import FAMILY, family_of, is_gone, is_held, is_waited_for, line_of, seen
from support.postgres import execute
from support.programs import INTERLOCK, environment, interlock, started
from support.waiting import eventually

RUN = ("lock", "run", "feeds")
UNTIL = "until [ -e {} ]; do sleep 0.05; done"


def one_line(error: str) -> str:
    lines = [line for line in error.splitlines() if line.startswith("interlock: ")]
    assert len(lines) == 1, error
    assert "Traceback" not in error
    return lines[0]


@pytest.mark.parametrize(("code", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill $$", 143)])
def test_the_exit_status_is_the_commands_and_the_lease_is_free_again(
    interlock_url: str, code: str, status: int
) -> None:
    assert interlock(*RUN, "--", "bash", "-c", code, url=interlock_url).returncode == status
    assert not is_held(interlock_url)
    assert seen(interlock_url).expires_at is None, "it was released, and did not expire"


def test_the_command_gets_its_grant_and_can_guard_with_it(interlock_url: str) -> None:
    code = (
        "import os, psycopg\n"
        "grant = [os.environ[f'INTERLOCK_LEASE_{fact}'] for fact in ('NAME', 'TOKEN', 'GRANT_ID')]\n"
        "with psycopg.connect(os.environ['INTERLOCK_DATABASE_URL']) as connection:\n"
        "    connection.execute('SELECT interlock.guard_v1(%s, %s::bigint, %s::uuid)', grant)\n"
        "print(*grant, os.environ['INTERLOCK_SCHEMA'])\n"
    )
    done = interlock(*RUN, "--", sys.executable, "-c", code, url=interlock_url)
    assert done.returncode == 0, done.stderr
    name, token, grant_id, schema = done.stdout.split()
    assert (name, schema) == ("feeds", "interlock")
    assert [(int(token),)] == execute(interlock_url, "SELECT token FROM interlock.leases_v1('feeds')")
    assert UUID(grant_id)


def test_the_documented_script_writes_under_the_guard(interlock_url: str) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "lock-run.md").read_text()
    (script,) = re.findall(r"```sh\n(psql [^`]+)```", page)
    execute(interlock_url, "CREATE TABLE report (at timestamptz)")
    to = urlsplit(interlock_url)
    assert to.username
    assert to.password
    variables = {
        "PATH": f"{find_binaries(None).bin_dir}:{os.environ['PATH']}",
        "PGHOST": str(to.hostname),
        "PGPORT": str(to.port),
        "PGUSER": to.username,
        "PGPASSWORD": to.password,
        "PGDATABASE": to.path.lstrip("/"),
    }
    done = interlock("lock", "run", "it's mine", "--", "bash", "-c", script, url=interlock_url, **variables)
    assert done.returncode == 0, done.stderr
    assert execute(interlock_url, "SELECT count(*) FROM report") == [(1,)]
    stale = interlock(
        "lock",
        "run",
        "it's mine",
        "--",
        "bash",
        "-c",
        f"export INTERLOCK_LEASE_TOKEN=1; {script}",
        url=interlock_url,
        **variables,
    )
    assert "is not held by the grant with token 1 any more" in stale.stderr
    assert execute(interlock_url, "SELECT count(*) FROM report") == [(1,)]


def test_a_password_on_interlocks_command_line_does_not_reach_the_command(interlock_url: str) -> None:
    done = interlock(*RUN, "--database", interlock_url, "--", "env")
    assert done.returncode == 0
    assert interlock_url not in done.stdout


def test_standard_streams_are_the_commands(interlock_url: str) -> None:
    done = subprocess.run(
        [INTERLOCK, *RUN, "--", "bash", "-c", "cat; echo complaint >&2"],
        env=environment(interlock_url),
        input="some input",
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("some input", "complaint\n")


def test_the_commands_options_are_its_own(interlock_url: str) -> None:
    done = interlock(*RUN, "--ttl", "5", "--", "echo", "--ttl", "-h", "--", "--no-wait", url=interlock_url)
    assert done.stdout == "--ttl -h -- --no-wait\n"


@pytest.mark.exhaustive(beyond=4)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["feeds"], "after two dashes, and the dashes are missing: interlock lock run NAME -- COMMAND"),
        (["feeds", "--"], "after two dashes, and the command is missing: interlock lock run NAME -- COMMAND"),
        (["feeds", "true"], "the dashes are missing: interlock lock run feeds -- true"),
        (["feeds", "ls", "-l", "a b"], "the dashes are missing: interlock lock run feeds -- ls -l 'a b'"),
        (["feeds", "--ttl", "5", "ls", "-l"], "the dashes are missing: interlock lock run NAME -- COMMAND"),
        (["feeds", "mail", "--", "true"], "unexpected extra argument"),
        (["--", "true"], "Missing argument 'NAME'"),
        (["feeds", "--tll", "3", "--", "true"], "No such option '--tll'"),
        (["feeds", "--timeout", "3", "--no-wait", "--", "true"], "Use --timeout or --no-wait, not both"),
        (["feeds", "--ttl", "soon", "--", "true"], "'soon' is not a duration: use seconds (90), or a unit"),
        (["feeds", "--timeout", "-1", "--", "true"], "'-1' is not a duration"),
        (["feeds", "--timeout", "nan", "--", "true"], "'nan' is not a duration"),
        (["feeds", "--metadata", "nightly", "--", "true"], "'nightly' has no key or no =: write KEY=VALUE"),
    ],
)
def test_a_misspelt_call_is_answered_with_the_right_form(arguments: list[str], words: str) -> None:
    done = interlock("lock", "run", *arguments, url="postgresql://127.0.0.1:1/shop")
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.parametrize(("command", "status"), [("no-such-command", 127), ("/", 126)])
def test_a_command_that_cannot_be_run_is_one_clear_line(interlock_url: str, command: str, status: int) -> None:
    done = interlock(*RUN, "--", command, url=interlock_url)
    assert done.returncode == status
    assert f"Cannot run '{command}'" in one_line(done.stderr)
    assert not is_held(interlock_url)


def test_a_held_lease_is_waited_for_until_the_timeout(interlock_url: str, tmp_path: Path) -> None:
    with started(*RUN, "--", "bash", "-c", UNTIL.format(tmp_path / "go"), url=interlock_url) as first:
        eventually(lambda: is_held(interlock_url))
        not_waited = interlock(*RUN, "--no-wait", "--", "echo", "ran", url=interlock_url)
        waited = interlock(*RUN, "--timeout", "200ms", "--", "echo", "ran", url=interlock_url)
        with started(*RUN, "--", "echo", "ran", url=interlock_url) as patient:
            eventually(lambda: is_waited_for(interlock_url))
            (tmp_path / "go").touch()
            assert first.end()[0] == 0
            assert patient.end()[:2] == (0, "ran\n")
    assert (not_waited.returncode, not_waited.stdout) == (75, "")
    assert "is not available now: `interlock lease list feeds` shows its holder" in one_line(not_waited.stderr)
    assert (waited.returncode, waited.stdout) == (75, "")
    assert "was not acquired within 0.2 s" in one_line(waited.stderr)


def test_commands_under_one_lease_never_overlap(interlock_url: str, tmp_path: Path) -> None:
    """A command that finds the directory runs at the same time as another."""
    code = (
        f"cd {tmp_path}; mkdir inside || exit 9; echo $INTERLOCK_LEASE_TOKEN >> tokens; "
        f"{UNTIL.format('go')}; sleep 0.1; rmdir inside"
    )
    with ExitStack() as stack:
        command = (*RUN, "--", "bash", "-c", code)
        running = [stack.enter_context(started(*command, url=interlock_url)) for _ in range(5)]
        eventually(lambda: is_waited_for(interlock_url, by=4))
        (tmp_path / "go").touch()
        ends = [program.end() for program in running]
    assert [status for status, _, _ in ends] == [0] * 5, ends
    tokens = [int(token) for token in (tmp_path / "tokens").read_text().split()]
    assert len(tokens) == 5
    assert tokens == sorted(set(tokens))


def test_background_processes_of_the_command_end_before_the_lease_is_free(interlock_url: str, tmp_path: Path) -> None:
    """The process ignores SIGTERM, so it ends after a second; the successor checks for it at once."""
    code = f"(trap '' TERM; exec sleep 300 >/dev/null) & echo $!; {UNTIL.format(tmp_path / 'go')}; exit 5"
    with started(*RUN, "--", "bash", "-c", code, url=interlock_url) as first:
        left = int(line_of(first))
        look = f"kill -0 {left} 2>/dev/null && echo met || echo alone"
        with started(*RUN, "--", "bash", "-c", look, url=interlock_url) as second:
            eventually(lambda: is_waited_for(interlock_url))
            (tmp_path / "go").touch()
            assert second.end()[:2] == (0, "alone\n")
        status, _, error = first.end()
    assert status == 5
    assert "command.left_behind" in error


def test_a_signal_reaches_the_command_and_the_lease_is_released_after_it(interlock_url: str) -> None:
    trap = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    with started(*RUN, "--", "bash", "-c", trap, url=interlock_url) as program:
        assert line_of(program) == "ready"
        program.send(signal.SIGTERM)
        assert program.end()[0] == 9
    assert seen(interlock_url).expires_at is None


def test_an_interrupt_ends_the_command_as_a_shell_would(interlock_url: str) -> None:
    with started(*RUN, "--", "bash", "-c", "echo ready; exec sleep 300", url=interlock_url) as program:
        assert line_of(program) == "ready"
        program.send(signal.SIGINT)
        status, _, error = program.end()
    assert (status, error) == (130, "")
    assert seen(interlock_url).expires_at is None


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_waiting_ends_the_wait_and_leaves_the_queue(interlock_url: str, signum: int) -> None:
    with started(*RUN, "--", "sleep", "300", url=interlock_url):
        eventually(lambda: is_held(interlock_url))
        with started(*RUN, "--", "echo", "ran", url=interlock_url) as second:
            eventually(lambda: is_waited_for(interlock_url))
            second.send(signum)
            assert second.end() == (128 + signum, "", "")
        assert execute(interlock_url, "SELECT count(*) FROM interlock.waiter") == [(0,)]


def test_running_under_a_lease_from_a_command_under_it_is_refused(interlock_url: str) -> None:
    nested = interlock(*RUN, "--", INTERLOCK, *RUN, "--", "echo", "ran", url=interlock_url)
    assert (nested.returncode, nested.stdout) == (70, "")
    assert "would wait for itself without end" in one_line(nested.stderr)
    within = interlock(*RUN, "--", INTERLOCK, "lock", "run", "other", "--", "echo", "ran", url=interlock_url)
    assert (within.returncode, within.stdout) == (0, "ran\n")


def test_a_stale_lease_in_the_environment_does_no_harm(interlock_url: str) -> None:
    shown = interlock(*RUN, "--", "env", url=interlock_url).stdout.splitlines()
    left = dict(line.split("=", 1) for line in shown if line.startswith("INTERLOCK_LEASE_"))
    assert interlock(*RUN, "--", "echo", "ran", url=interlock_url, **left).stdout == "ran\n"
    left["INTERLOCK_LEASE_TOKEN"] = "mine"
    assert interlock(*RUN, "--", "echo", "ran", url=interlock_url, **left).stdout == "ran\n"


def test_an_orphan_of_a_killed_command_is_ended_too(interlock_url: str) -> None:
    with started(*RUN, "--", "bash", "-c", FAMILY, url=interlock_url) as program:
        command, *others = family_of(program)
        subprocess.run(["kill", "-KILL", str(command)], check=True)
        assert program.end()[0] == 137
    assert all(map(is_gone, others))
