"""A state machine's declaration: its checks, and everything that is derived from it."""

from datetime import datetime
from itertools import product

import pytest

from interlock.errors import ConfigurationError, IllegalTransition
from interlock.idempotency import EventLog, StateMachine, Table
from interlock.idempotency.arguments import checked_moment
from support.repeatable_writes import MACHINE

LEGAL = {
    ("new", "pay"): "paid",
    ("new", "cancel"): "cancelled",
    ("paid", "ship"): "shipped",
    ("paid", "cancel"): "cancelled",
}


def test_it_has_its_states_and_events() -> None:
    assert MACHINE.initial == "new"
    assert MACHINE.states == ("new", "paid", "cancelled", "shipped")
    assert MACHINE.events == ("pay", "cancel", "ship")
    assert MACHINE.sources("cancel") == ("new", "paid")


@pytest.mark.parametrize(("state", "event"), [*product((*MACHINE.states, "unknown"), (*MACHINE.events, "unknown"))])
def test_the_next_state_is_declared_or_illegal(state: str, event: str) -> None:
    if (state, event) in LEGAL:
        assert MACHINE.next_state(state, event) == LEGAL[state, event]
    else:
        with pytest.raises(IllegalTransition) as caught:
            MACHINE.next_state(state, event)
        assert (caught.value.state, caught.value.event) == (state, event)


def test_the_guard_names_the_sources_and_the_target() -> None:
    assert MACHINE.guard("cancel") == (
        'UPDATE "public"."orders" SET "state" = \'cancelled\' '
        "WHERE \"id\" = $1 AND \"state\" IN ('new', 'paid') RETURNING 1"
    )


def test_the_trigger_has_every_transition_and_no_other() -> None:
    script = MACHINE.install_sql()
    pairs = {(state, to) for (state, _), to in LEGAL.items()}
    for pair in product(MACHINE.states, MACHINE.states):
        assert (f"('{pair[0]}', '{pair[1]}')" in script) is (pair in pairs)


def test_the_diagram() -> None:
    assert MACHINE.mermaid().splitlines() == [
        "stateDiagram-v2",
        "    [*] --> new",
        "    new --> paid: pay",
        "    new --> cancelled: cancel",
        "    paid --> shipped: ship",
        "    paid --> cancelled: cancel",
        "    cancelled --> [*]",
        "    shipped --> [*]",
    ]


@pytest.mark.parametrize(
    ("transitions", "why"),
    [
        ({}, "declare the state in which rows begin"),
        ({"a": {"go": "a"}}, "move a row twice"),
        ({"a": {"go": "b"}, "b": {"go": "b"}}, "move a row twice"),
        ({"a": {"next": "b"}, "b": {"next": "c"}}, "names of their own"),
        ({"a": {"go": "b"}, "c": {"go": "d"}}, "names of their own"),
        ({"a": {"go on": "b"}}, "cannot be the name of a state or an event"),
        ({"a'; DROP TABLE orders; --": {"go": "b"}}, "cannot be the name of a state or an event"),
        ({"a": {"go": ""}}, "cannot be the name of a state or an event"),
    ],
)
def test_events_that_cannot_be_repeated_safely_are_refused(transitions: dict[str, dict[str, str]], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        StateMachine("orders", transitions)


@pytest.mark.parametrize("name", ["", "a.b.c", ".a", "a\nb"])
def test_an_invalid_table_name_is_refused(name: str) -> None:
    for kind in (lambda: Table(name), lambda: EventLog(name), lambda: StateMachine(name, {"a": {"go": "b"}})):
        with pytest.raises(ConfigurationError, match="cannot be the name of a table"):
            kind()


def test_names_are_quoted() -> None:
    machine = StateMachine('odd"schema.odd table', {"a": {"go": "b"}}, column='the"state', key="Id")
    assert machine.guard("go").startswith('UPDATE "odd""schema"."odd table" SET "the""state" = \'b\' WHERE "Id" = $1')


def test_a_recorded_time_has_a_zone() -> None:
    for never in (datetime(2026, 1, 2), "noon", None):  # noqa: DTZ001
        with pytest.raises(ConfigurationError, match="recorded time"):
            checked_moment(never)  # type: ignore[arg-type]


def test_an_undeclared_event_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has no event 'fly'"):
        MACHINE.guard("fly")
