"""When a command has waited enough, and what it makes of what it sees then."""

import io

import pytest

from interlock.cli.instance.connection import client_environment
from interlock.cli.instance.presentation import INSTANCES
from interlock.cli.instance.wait import is_over, missed
from interlock.cli.instance.watch import changed
from interlock.cli.record.conclusion import failed, is_ended, not_cancelled
from interlock.cli.record.progress import ProgressLines
from support.instance_answers import CREATING, DELETED, FAILED, RUNNING

OVERTAKEN = CREATING | {"state": "deleting", "orchestration": "instance-5b0c-delete-2"}
STOPPED = RUNNING | {"state": "stopped", "health": "unknown"}
UNHEALTHY = RUNNING | {"health": "unhealthy"}
CANCELLED = FAILED | {"error": {"code": "cancelled", "message": "It was cancelled: that was requested."}}


def test_what_was_asked_for_has_ended_when_nothing_works_on_it_or_something_else_does() -> None:
    assert [is_ended(CREATING, now) for now in (CREATING, RUNNING, FAILED, OVERTAKEN)] == [False, True, True, True]


def test_why_it_failed() -> None:
    assert failed(INSTANCES, CREATING, RUNNING) == ""
    assert failed(INSTANCES, CREATING, FAILED) == "mydb is failed: The disk is full: make room. (out_of_space)"
    assert (
        failed(INSTANCES, CREATING, OVERTAKEN)
        == "mydb: something else was asked for meanwhile, and it is deleting now."
    )


def test_whoever_cancels_wants_it_to_be_cancelled() -> None:
    assert not_cancelled(INSTANCES, CREATING, CANCELLED) == ""
    assert "came to its end before" in not_cancelled(INSTANCES, CREATING, RUNNING)


@pytest.mark.parametrize(
    ("wanted", "over"),
    [
        (None, [RUNNING, STOPPED, FAILED, DELETED, UNHEALTHY]),
        ("running", [RUNNING, UNHEALTHY, FAILED, DELETED]),
        ("stopped", [STOPPED, FAILED, DELETED]),
        ("deleted", [FAILED, DELETED]),
        ("failed", [FAILED, DELETED]),
        ("healthy", [RUNNING, FAILED, DELETED]),
        ("unhealthy", [UNHEALTHY, FAILED, DELETED]),
    ],
)
def test_a_wait_ends_with_what_is_wanted_or_when_that_cannot_come_any_more(
    wanted: str | None, over: list[dict[str, object]]
) -> None:
    every = [CREATING, RUNNING, STOPPED, FAILED, DELETED, UNHEALTHY, OVERTAKEN]
    assert [one for one in every if is_over(one, wanted)] == [one for one in every if one in over]


def test_a_wait_fails_with_the_error() -> None:
    assert (missed(RUNNING, None), missed(RUNNING, "running"), missed(FAILED, "failed")) == ("", "", "")
    assert missed(FAILED, None) == missed(FAILED, "running")
    assert missed(FAILED, None) == "mydb is failed: The disk is full: make room. (out_of_space)"
    assert missed(DELETED, "running") == "mydb is deleted."


def test_a_start_that_did_not_succeed_is_over_and_failed_though_the_instance_is_not() -> None:
    stopped_again = STOPPED | {"error": {"code": "not_running", "message": "It does not start."}}
    assert is_over(stopped_again, None)
    assert missed(stopped_again, None) == "mydb is stopped: It does not start. (not_running)"


def test_changes_are_told_of_those_that_changed() -> None:
    other = RUNNING | {"id": "other"}
    before = {"mydb": RUNNING, "other": other}
    assert changed(before, before) == []
    assert changed(before, {"mydb": UNHEALTHY, "other": other | {"updated_at": "2031-01-02T12:00:00Z"}}) == [UNHEALTHY]
    assert changed({}, before) == [RUNNING, other]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_line_for_each_step_in_a_pipe() -> None:
    pipe = io.StringIO()
    with ProgressLines(pipe) as progress:
        progress.say("mydb", "checked")
        progress.say("mydb", "provisioned")
    assert pipe.getvalue() == "mydb: checked\nmydb: provisioned\n"


def test_progress_is_one_line_that_changes_and_goes_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "12")
    terminal = Terminal()
    with ProgressLines(terminal) as progress:
        progress.say("mydb", "checked")
        progress.say("mydb", "provisioned")
    assert terminal.getvalue() == "\r\x1b[Kmydb: check\r\x1b[Kmydb: provi\r\x1b[K"


def test_psql_is_led_to_the_instance_and_nowhere_else() -> None:
    own = {"HOME": "/home/me", "PGHOSTADDR": "10.0.0.1", "PGSERVICE": "prod", "PGSSLMODE": "disable", "PGHOST": "prod"}
    assert client_environment(RUNNING["connection"], own) == {
        "HOME": "/home/me",
        "PGHOST": "127.0.0.1",
        "PGPORT": "15432",
        "PGUSER": "mydb",
        "PGDATABASE": "mydb",
        "PGSSLMODE": "verify-full",
        "PGAPPNAME": "interlock connect",
    }
