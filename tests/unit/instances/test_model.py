"""The states of an instance, every pair of state and event, and the validation of requests."""

from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest

from interlock.errors import BadSpec, IllegalTransition, InvalidName
from interlock.instances import model
from interlock.instances.model import Event, State
from interlock.instances.records import InstanceRecords

STATES: tuple[State, ...] = get_args(State)
EVENTS: tuple[Event, ...] = get_args(Event)

MACHINE = InstanceRecords("interlock").machine

# Line by line what is written in docs/reference/instance-states.md.
LEGAL = {
    ("creating", "come_up"): "running",
    ("creating", "fail"): "failed",
    ("creating", "delete"): "deleting",
    ("running", "stop"): "stopping",
    ("running", "restart"): "starting",
    ("running", "fail"): "failed",
    ("running", "delete"): "deleting",
    ("stopping", "go_down"): "stopped",
    ("stopping", "come_up"): "running",
    ("stopping", "fail"): "failed",
    ("stopping", "delete"): "deleting",
    ("stopped", "start"): "starting",
    ("stopped", "fail"): "failed",
    ("stopped", "delete"): "deleting",
    ("starting", "come_up"): "running",
    ("starting", "go_down"): "stopped",
    ("starting", "fail"): "failed",
    ("starting", "delete"): "deleting",
    ("failed", "delete"): "deleting",
    ("deleting", "vanish"): "deleted",
    ("deleting", "fail"): "failed",
}


@pytest.mark.parametrize(("state", "event"), [*product((*STATES, "unknown"), (*EVENTS, "unknown"))])
def test_the_next_state_is_declared_or_illegal(state: str, event: str) -> None:
    if (state, event) in LEGAL:
        assert MACHINE.next_state(state, event) == LEGAL[state, event]
    else:
        with pytest.raises(IllegalTransition) as caught:
            MACHINE.next_state(state, event)
        assert (caught.value.state, caught.value.event) == (state, event)


def test_there_are_no_other_states_or_events() -> None:
    assert set(MACHINE.states) == set(STATES)
    assert set(MACHINE.events) == set(EVENTS)
    assert MACHINE.initial == "creating"
    assert InstanceRecords("other").machine.table == "other.instance"


def reachable(state: str) -> set[str]:
    found: set[str] = set()
    ahead = [state]
    while ahead:
        new = set(model.TRANSITIONS.get(ahead.pop(), {}).values()) - found
        found |= new
        ahead += new
    return found


@pytest.mark.parametrize("state", [state for state in STATES if state != "deleted"])
def test_an_instance_can_be_deleted_in_every_state(state: State) -> None:
    assert state == "deleting" or MACHINE.next_state(state, "delete") == "deleting"
    assert "deleted" in reachable(state)


@pytest.mark.parametrize("state", ["deleting", "failed", "deleted"])
def test_an_instance_that_may_be_half_removed_never_runs_again(state: State) -> None:
    assert reachable(state) <= {"deleting", "failed", "deleted"}


@pytest.mark.parametrize("state", ["stopping", "starting"])
def test_an_unsuccessful_stop_or_start_can_be_repeated(state: State) -> None:
    assert {MACHINE.next_state(state, "come_up"), MACHINE.next_state(state, "go_down")} == {"running", "stopped"}


def test_a_deleted_record_stays_deleted() -> None:
    assert reachable("deleted") == set()


def test_the_page_shows_the_machine() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "instance-states.md").read_text(encoding="utf-8")
    assert f"```mermaid\n{MACHINE.mermaid()}\n```" in page
    assert all(f"| `{event}` |" in page for event in EVENTS)
    assert all(f"| `{state}` |" in page for state in STATES)


@pytest.mark.parametrize(
    ("given", "name"), [("MyDB", "mydb"), ("a", "a"), ("7", "7"), ("a" * 63, "a" * 63), ("bücher", "xn--bcher-kva")]
)
def test_a_name_is_a_dns_label(given: str, name: str) -> None:
    assert model.instance_name(given) == name


@pytest.mark.parametrize(
    "given", ["", "a" * 64, "my_db", "-a", "a-", "a.b", "my db", "a\n", "ab--c", "Postgres", "interlock", "LocalHost"]
)
def test_invalid_names_are_refused(given: str) -> None:
    with pytest.raises(InvalidName):
        model.instance_name(given)


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ("10Gi", 10 * 2**30),
        ("10GiB", 10 * 2**30),
        ("500MB", 500 * 10**6),
        ("500M", 500 * 10**6),
        ("1.5 Ti", 3 * 2**39),
        ("300000kB", 300_000_000),
        ("262144Ki", 2**28),
        (2**28, 2**28),
        ("268435456", 2**28),
        ("268435456B", 2**28),
        ("64Ti", 2**46),
        ("0.3Gi", 322122548),  # no part of a byte is lost
    ],
)
def test_a_size_is_a_number_of_bytes(given: str | int, size: int) -> None:
    assert model.storage_bytes(given) == size


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Gi",
        "ten",
        "-10Gi",
        "10 GiGi",
        "1e9",
        "10gi",
        "500m",
        "500Mb",
        "0",
        "255Mi",
        "65Ti",
        "\u0663Gi",
        True,
        "1,5Gi",
        "1.Gi",
        "9" * 5000,
    ],
)
def test_invalid_sizes_are_refused(given: str) -> None:
    with pytest.raises(BadSpec, match=r"is not a valid size|is out of range"):
        model.storage_bytes(given)


@pytest.mark.parametrize(("given", "version"), [("17", "17"), (14, "14"), (" 18 ", "18"), (None, None), ("", None)])
def test_a_version_is_a_major_one(given: str | int | None, version: str | None) -> None:
    assert model.major_version(given) == version


@pytest.mark.parametrize("given", ["13", "17.4", "9.6", "latest", "0", -17, "017", "\u0661\u0667", "100", True])
def test_invalid_versions_are_refused(given: str | int) -> None:
    with pytest.raises(BadSpec, match="is not a valid version"):
        model.major_version(given)


def test_parameters_are_text() -> None:
    given: dict[str, str | int | float | bool] = {"Work_Mem": "64MB", "max_connections": 20, "random_page_cost": 1.1}
    given |= {"fsync": True, "jit": False, "auto_explain.log_min_duration": -1}
    assert model.parameters(given) == {
        "work_mem": "64MB",
        "max_connections": "20",
        "random_page_cost": "1.1",
        "fsync": "on",
        "jit": "off",
        "auto_explain.log_min_duration": "-1",
    }


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"": "a"}, "cannot be the name of a PostgreSQL parameter"),
        ({"work mem": "a"}, "cannot be the name of a PostgreSQL parameter"),
        ({"a.b.c": "a"}, "cannot be the name of a PostgreSQL parameter"),
        ({"work_mem\n": "a"}, "cannot be the name of a PostgreSQL parameter"),
        ({"work_mem = 1 #": "a"}, "cannot be the name of a PostgreSQL parameter"),
        ({"work_mem": "1", "Work_Mem": "2"}, "given twice"),
        ({"work_mem": "1\nfsync = off"}, "without control characters"),
        ({"work_mem": "a\0"}, "without control characters"),
        ({"work_mem": None}, "has to be text or a number"),
        ({"work_mem": "x" * 1001}, "of 1000 characters at most"),
        ({f"a{number}": "a" for number in range(201)}, "201 parameters are too many"),
    ],
)
def test_invalid_parameters_are_refused(given: dict[str, Any], what: str) -> None:
    with pytest.raises(BadSpec) as caught:
        model.parameters(given)
    assert what in str(caught.value)


def test_tags_are_texts() -> None:
    given = {"team": "Büro 7", "cost-centre/eu_1.x": "", "A": "x" * 255}
    assert model.tags(given) == given


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"": "a"}, "cannot be the name of a tag"),
        ({"-a": "a"}, "cannot be the name of a tag"),
        ({"a" * 64: "a"}, "cannot be the name of a tag"),
        ({"a b": "a"}, "cannot be the name of a tag"),
        ({"a": "x" * 256}, "The tag a has to be text of 255 characters at most"),
        ({"a": "x\n"}, "The tag a has to be text"),
        ({"a": 7}, "The tag a has to be text"),
        ({f"a{number}": "a" for number in range(51)}, "51 tags are too many"),
    ],
)
def test_invalid_tags_are_refused(given: dict[str, Any], what: str) -> None:
    with pytest.raises(BadSpec) as caught:
        model.tags(given)
    assert what in str(caught.value)
