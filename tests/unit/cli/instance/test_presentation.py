"""Instances as text."""

from datetime import UTC, datetime

import pytest

from interlock.cli.instance.presentation import INSTANCES, address, outcome, size, status
from interlock.cli.record.kind import error_text
from interlock.cli.terminal import table_text
from support.instance_answers import CREATING, DELETED, FAILED, RUNNING, happening

NOW = datetime(2031, 1, 1, 12, 5, tzinfo=UTC)


def test_all_facts_of_an_instance() -> None:
    assert INSTANCES.text(RUNNING).splitlines() == [
        "mydb",
        "  state: running, healthy",
        "  address: 127.0.0.1:15432, user mydb, database mydb",
        "  tls: sslmode=verify-full",
        "  dns name: mydb.example.com",
        "  driver: local",
        "  version: 17",
        "  storage: 10 GiB",
        "  parameters: work_mem=8MB",
        "  tags: team=shop",
        "  created: 2031-01-01 12:00:00 UTC",
        "  changed: 2031-01-01 12:00:02 UTC",
        "  id: 5b0c2f0e-0000-4000-8000-000000000001",
    ]


def test_an_instance_that_is_being_created_and_one_that_failed() -> None:
    assert "  worked on by: instance-5b0c-create-1" in INSTANCES.text(CREATING).splitlines()
    assert "  error: The disk is full: make room. (out_of_space)" in INSTANCES.text(FAILED).splitlines()
    assert error_text(RUNNING) == ""


def test_a_table_leaves_out_its_last_columns_on_a_narrow_terminal() -> None:
    whole = INSTANCES.table([RUNNING, FAILED], NOW, None).splitlines()
    assert whole == [
        "NAME  STATE           HEALTH   ADDRESS          DNS NAME          VERSION  DRIVER  AGE",
        "mydb  running         healthy  127.0.0.1:15432  mydb.example.com  17       local   5 min",
        "mydb  failed (error)  -        -                mydb.example.com  17       local   5 min",
    ]
    narrow = INSTANCES.table([RUNNING, FAILED], NOW, 50).splitlines()
    assert narrow == [line[:46].rstrip() for line in whole]


def test_a_table_keeps_its_first_column_on_any_terminal() -> None:
    assert table_text(("NAME", "STATE"), [("long-name", "x")], 3) == "NAME\nlong-name"


def test_text_of_unknown_origin_is_escaped_for_the_terminal() -> None:
    nasty = RUNNING | {"name": "a\x1b[2Jb", "dns_name": "c\x1b]0;d", "error": {"code": "x", "message": "\x1b[31m"}}
    assert "\x1b" not in INSTANCES.text(nasty) + INSTANCES.table([nasty], NOW, None) + outcome(nasty) + error_text(
        nasty
    )
    assert "\x1b" not in INSTANCES.event_text(happening("unhealthy", 1, "\x1b[2J"))


@pytest.mark.parametrize(
    ("instance", "said"),
    [
        (CREATING, "mydb is creating: `interlock instance wait mydb` waits until the work is done."),
        (RUNNING, "mydb is running at 127.0.0.1:15432: `interlock instance connect mydb` opens psql."),
        (DELETED, "mydb is deleted."),
        (FAILED, "mydb is failed: The disk is full: make room. (out_of_space)"),
    ],
)
def test_what_has_come_of_a_request(instance: dict[str, object], said: str) -> None:
    assert outcome(instance) == said


def test_health_is_told_of_what_has_one() -> None:
    assert (status(RUNNING), status(CREATING), status(DELETED)) == ("running, healthy", "creating", "deleted")


def test_an_address_of_six() -> None:
    assert address(RUNNING | {"connection": {"host": "::1", "port": 1}}) == "[::1]:1"


def test_events_are_called_as_people_call_them() -> None:
    assert INSTANCES.event_text(happening("come_up", 1)) == "running"
    assert INSTANCES.event_text(happening("unhealthy", 1, "Nobody answers.")) == "unhealthy: Nobody answers."


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (7_800_000, "7.4 MiB"), (2**40, "1 TiB"), (2**52, "4096 TiB")],
)
def test_sizes(count: int, said: str) -> None:
    assert size(count) == said
