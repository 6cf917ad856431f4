"""`interlock gate` on the command line."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.gates import gate_name, is_held, waiters
from support.lock_commands import is_gone
from support.migrations import holding_back, long_by_psycopg, running_long, tells_what_it_meets, wait_for_go
from support.postgres import execute
from support.programs import environment, interlock, started
from support.waiting import eventually


def one_line(error: str) -> str:
    """The last line of standard error, after the log lines; it begins with interlock: and shows no traceback."""
    lines = [line for line in error.splitlines() if line.startswith("interlock: ")]
    assert len(lines) == 1, error
    assert "Traceback" not in error
    return lines[0]


@pytest.mark.parametrize(("code", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)])
def test_the_exit_status_is_the_commands(interlock_url: str, code: str, status: int) -> None:
    assert interlock("gate", "run", "--", "bash", "-c", code, url=interlock_url).returncode == status


@pytest.mark.parametrize(("command", "status"), [("no-such-command", 127), ("/", 126)])
def test_a_command_that_cannot_be_run_is_one_clear_line(interlock_url: str, command: str, status: int) -> None:
    done = interlock("gate", "run", "--", command, url=interlock_url)
    assert done.returncode == status
    assert f"Cannot run '{command}'" in one_line(done.stderr)


def test_the_commands_options_are_its_own(interlock_url: str) -> None:
    done = interlock("gate", "run", "--key", "shop", "--", "echo", "--key", "-h", "--", url=interlock_url)
    assert done.stdout == "--key -h --\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "after two dashes, and the dashes are missing: interlock gate run -- COMMAND"),
        (["--"], "after two dashes, and the command is missing"),
        (["true"], "the dashes are missing: interlock gate run -- true"),
        (["--polcy", "skip", "--", "true"], "No such option '--polcy'"),
    ],
)
def test_a_misspelt_call_is_answered_with_the_right_form(arguments: list[str], words: str) -> None:
    done = interlock("gate", "run", *arguments, url="postgresql://127.0.0.1:1/shop")
    assert done.returncode == 2
    assert words in done.stderr


def test_a_gate_that_was_not_passed_exits_with_75(interlock_url: str) -> None:
    with holding_back(interlock_url) as go_on:
        script = wait_for_go(interlock_url)
        with started("gate", "run", "--", "bash", "-c", script, url=interlock_url) as first:
            eventually(lambda: is_held(interlock_url))
            failed = interlock("gate", "run", "--policy", "fail", "--", "true", url=interlock_url)
            skipped = interlock("gate", "run", "--policy", "skip", "--", "false", url=interlock_url)
            timed_out = interlock("gate", "run", "--timeout", "0.1", "--", "true", url=interlock_url)
            go_on()
            assert first.end()[0] == 0
    assert (failed.returncode, skipped.returncode, timed_out.returncode) == (75, 0, 75)
    assert "is taken" in one_line(failed.stderr)
    assert "is still taken" in one_line(timed_out.stderr)


@pytest.mark.parametrize(("answer", "status", "ran"), [(0, 0, False), (1, 0, True), (3, 78, False), (2, 70, False)])
def test_a_check_command_decides_by_its_exit_status(interlock_url: str, answer: int, status: int, ran: bool) -> None:
    check = f"{sys.executable} -c 'raise SystemExit({answer})'"
    done = interlock("gate", "run", "--check", check, "--", "echo", "migrated", url=interlock_url)
    assert done.returncode == status
    assert ("migrated" in done.stdout) == ran


def test_status_shows_the_migrator_and_afterwards_the_result(interlock_url: str) -> None:
    with holding_back(interlock_url) as go_on:
        script = wait_for_go(interlock_url)
        with started("gate", "run", "--key", "shop", "--", "bash", "-c", script, url=interlock_url) as first:
            eventually(lambda: is_held(interlock_url, "shop"))
            eventually(lambda: execute(interlock_url, "SELECT 1 FROM interlock.gate_run"))
            during = json.loads(interlock("gate", "status", "--json", url=interlock_url).stdout)
            go_on()
            assert first.end()[0] == 0
    after = json.loads(interlock("gate", "status", "--json", url=interlock_url).stdout)
    name = gate_name(interlock_url, "shop")
    assert [(gate["gate"], gate["state"], gate["lock"]) for gate in during] == [(str(name), "migrating", [*name.lock])]
    assert [(gate["state"], gate["outcome"]) for gate in after] == [("free", "done")]


def test_status_on_a_database_without_interlock_is_empty(database_url: str) -> None:
    done = interlock("gate", "status", url=database_url)
    assert (done.returncode, done.stdout) == (0, "No gate was used in this database.\n")


def test_a_forced_unlock_stops_the_migration_and_is_recorded(interlock_url: str) -> None:
    with started("gate", "run", "--", *long_by_psycopg(interlock_url), url=interlock_url) as first:
        eventually(lambda: running_long(interlock_url))
        assert interlock("gate", "unlock", url=interlock_url).returncode == 2
        done = interlock("gate", "unlock", "--force", "--reason", "stuck", url=interlock_url)
        assert done.returncode == 0, done.stderr
        assert first.end()[0] == 74
    assert execute(interlock_url, "SELECT action, reason FROM interlock.gate_intervention") == [("unlock", "stuck")]
    met = interlock("gate", "run", "--", *tells_what_it_meets(interlock_url), url=interlock_url)
    assert met.stdout.split()[1] == "0"


def test_a_signal_reaches_the_command_and_the_gate_opens_after_it(interlock_url: str) -> None:
    trap = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"
    with started("gate", "run", "--", "bash", "-c", trap, url=interlock_url) as program:
        assert program.process.stdout is not None
        assert program.process.stdout.readline() == "ready\n"
        program.send(signal.SIGTERM)
        assert program.end()[0] == 9
    assert execute(interlock_url, "SELECT outcome FROM interlock.gate_run") == [("failed",)]


def test_a_signal_while_waiting_ends_it_without_a_traceback(interlock_url: str) -> None:
    with started("gate", "run", "--", *long_by_psycopg(interlock_url), url=interlock_url):
        eventually(lambda: is_held(interlock_url))
        with started("gate", "run", "--", "true", url=interlock_url) as second:
            eventually(lambda: waiters(interlock_url))
            second.send(signal.SIGINT)
            status, _, error = second.end()
    assert status == 130
    assert "Traceback" not in error


def test_a_signal_while_the_check_runs_ends_the_check_too(interlock_url: str, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    check = f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 300"
    with started("gate", "run", "--check", check, "--", "true", url=interlock_url) as program:
        eventually(pid.exists)
        program.send(signal.SIGTERM)
        assert program.end() == (128 + signal.SIGTERM, "", "")
    assert is_gone(int(pid.read_text()))


def test_a_half_done_step_is_shown_and_settled(interlock_url: str) -> None:
    code = (
        "from interlock import Gate\n"
        "import os, signal\n"
        "with Gate('shop') as passage:\n"
        "    passage.step('reindex', lambda: os.kill(os.getpid(), signal.SIGKILL))\n"
    )
    killed = subprocess.run([sys.executable, "-c", code], env=environment(interlock_url), check=False)
    assert killed.returncode == -signal.SIGKILL
    head, row = interlock("gate", "steps", url=interlock_url).stdout.splitlines()
    assert head.split() == ["BEGUN", "STEP", "STATE", "REPLICA"]
    assert row[head.index("STEP") : head.index("REPLICA")] == "reindex  HALF DONE  "
    [facts] = json.loads(interlock("gate", "steps", "--json", url=interlock_url).stdout)
    assert (facts["step"], facts["finished_at"], "T" in facts["started_at"]) == ("reindex", None, True)
    unsaid = interlock("gate", "settle", "reindex", url=interlock_url)
    assert (unsaid.returncode, "use --done or --again" in unsaid.stderr) == (2, True)
    settled = interlock("gate", "settle", "reindex", "--again", "--reason", "looked", url=interlock_url)
    assert settled.stdout == "Step 'reindex' may run again.\n"
    again = interlock("gate", "settle", "reindex", "--done", url=interlock_url)
    assert again.returncode == 78
    assert "no half-done step 'reindex'" in one_line(again.stderr)
    assert execute(interlock_url, "SELECT action, subject, reason FROM interlock.gate_intervention") == [
        ("step again", "reindex", "looked")
    ]


@pytest.mark.parametrize(
    ("url", "status", "words"),
    [
        (None, 78, "set INTERLOCK_DATABASE_URL"),
        ("mysql://localhost/shop", 78, "should look like postgresql://"),
        ("postgresql://u:hunter2@127.0.0.1:1/shop", 69, "No database answers at postgresql://u@127.0.0.1:1/shop"),
        ("postgresql://u:hunter2@nowhere.invalid/shop", 69, "No database answers"),
        ("postgresql://u:hunter2@127.0.0.1:notaport/shop", 78, "cannot be read"),
    ],
)
def test_a_bad_database_url_is_one_clear_line(url: str | None, status: int, words: str) -> None:
    done = interlock("gate", "run", "--", "true", url=url, INTERLOCK_DATA_DIR="/nonexistent")
    assert done.returncode == status
    assert words in one_line(done.stderr)
    assert "hunter2" not in done.stderr


def test_a_wrong_password_or_database_is_one_clear_line(interlock_url: str) -> None:
    password = interlock_url.split("//")[1].split("@")[0].split(":")[1]
    for url in (interlock_url.replace(password, "hunter2"), f"{interlock_url}_not"):
        done = interlock("gate", "run", "--", "true", url=url)
        assert done.returncode == 77
        assert "check the URL's user, password and database" in one_line(done.stderr)
        assert "hunter2" not in done.stderr
        assert password not in done.stderr


def test_a_check_is_a_shell_command(interlock_url: str) -> None:
    done = interlock("gate", "run", "--check", "true && false", "--", "echo", "migrated", url=interlock_url)
    assert (done.returncode, done.stdout) == (0, "migrated\n")


def test_the_command_finds_the_gates_database_and_schema(interlock_url: str) -> None:
    show = ("bash", "-c", "echo $INTERLOCK_DATABASE_URL $INTERLOCK_SCHEMA $INTERLOCK_GATE_FENCE")
    done = interlock("gate", "run", "--database", interlock_url, "--schema", "other", "--", *show)
    assert done.stdout == f"{interlock_url} other 1\n"


def test_the_check_finds_the_gates_database(interlock_url: str) -> None:
    check = f'test "$INTERLOCK_DATABASE_URL" = "{interlock_url}"'
    done = interlock("gate", "run", "--database", interlock_url, "--check", check, "--", "echo", "migrated")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_a_data_directory_beats_the_environments_database(interlock_url: str) -> None:
    done = interlock("gate", "status", "--data-dir", "/nonexistent", url=interlock_url)
    assert done.returncode == 78
    assert "no `interlock up` runs on /nonexistent" in one_line(done.stderr)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--version", "3", "--compatible-since", "4"], "compatible_since (4) is later than the version (3)"),
        (["--compatible-since", "4"], "needs a version"),
        (["--version", "abc"], "cannot be a gate's version"),
    ],
)
def test_options_that_cannot_work_are_refused_before_any_effect(options: list[str], words: str) -> None:
    done = interlock("gate", "run", *options, "--", "true", url="postgresql://127.0.0.1:1/shop")
    assert done.returncode == 78
    assert words in one_line(done.stderr)
