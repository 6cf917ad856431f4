"""The end of a command's wait, its result, and the lines that it prints meanwhile."""

import io

import pytest

from interlock.cli.instance.connection import client_environment
from interlock.cli.instance.presentation import INSTANCES
from interlock.cli.instance.wait import is_over, wait_failure
from interlock.cli.instance.watch import changed
from interlock.cli.record.conclusion import cancel_failure, has_ended, work_failure
from interlock.cli.record.progress import ProgressLines
from support.instance_answers import CREATING, DELETED, FAILED, RUNNING

OVERTAKEN = CREATING | {"state": "deleting", "orchestration": "instance-5b0c-delete-2"}
STOPPED = RUNNING | {"state": "stopped", "health": "unknown"}
UNHEALTHY = RUNNING | {"health": "unhealthy"}
CANCELLED = FAILED | {"error": {"code": "cancelled", "message": "The orchestration was cancelled: that was requested."}}


def test_requested_work_has_ended_once_nothing_or_other_work_is_in_progress() -> None:
    assert [has_ended(CREATING, now) for now in (CREATING, RUNNING, FAILED, OVERTAKEN)] == [False, True, True, True]


def test_the_reason_of_a_failure() -> None:
    assert work_failure(INSTANCES, CREATING, RUNNING) == ""
    assert work_failure(INSTANCES, CREATING, FAILED) == "mydb is failed: The disk is full: make room. (out_of_space)"
    assert (
        work_failure(INSTANCES, CREATING, OVERTAKEN)
        == "mydb is deleting now, because another request has replaced this one."
    )


def test_a_cancellation_fails_if_the_work_ended_before() -> None:
    assert cancel_failure(INSTANCES, CREATING, CANCELLED) == ""
    assert "its work ended before" in cancel_failure(INSTANCES, CREATING, RUNNING)


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
def test_a_wait_ends_in_the_wanted_state_or_once_that_is_impossible(
    wanted: str | None, over: list[dict[str, object]]
) -> None:
    every = [CREATING, RUNNING, STOPPED, FAILED, DELETED, UNHEALTHY, OVERTAKEN]
    assert [one for one in every if is_over(one, wanted)] == [one for one in every if one in over]


def test_a_wait_fails_with_the_error() -> None:
    assert (wait_failure(RUNNING, None), wait_failure(RUNNING, "running"), wait_failure(FAILED, "failed")) == (
        "",
        "",
        "",
    )
    assert wait_failure(FAILED, None) == wait_failure(FAILED, "running")
    assert wait_failure(FAILED, None) == "mydb is failed: The disk is full: make room. (out_of_space)"
    assert wait_failure(DELETED, "running") == "mydb is deleted."


def test_a_failed_start_ends_the_wait_with_its_error() -> None:
    stopped_again = STOPPED | {"error": {"code": "not_running", "message": "It does not start."}}
    assert is_over(stopped_again, None)
    assert wait_failure(stopped_again, None) == "mydb is stopped: It does not start. (not_running)"


def test_only_instances_with_another_state_count_as_changed() -> None:
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
        progress.show("mydb", "checked")
        progress.show("mydb", "provisioned")
    assert pipe.getvalue() == "mydb: checked\nmydb: provisioned\n"


def test_progress_is_one_line_that_is_rewritten_and_erased_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "12")
    terminal = Terminal()
    with ProgressLines(terminal) as progress:
        progress.show("mydb", "checked")
        progress.show("mydb", "provisioned")
    assert terminal.getvalue() == "\r\x1b[Kmydb: check\r\x1b[Kmydb: provi\r\x1b[K"


def test_psql_connects_to_the_instance_whatever_the_environment_says() -> None:
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
