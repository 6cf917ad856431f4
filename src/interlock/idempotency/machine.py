"""A state machine, declared once: its pure function, guarded UPDATE, trigger and diagram come from one declaration.

An event moves a row from one of its sources to its target, in one UPDATE that names the sources in its WHERE. If
several callers apply the event at once, one of them moves the row, and the others find it moved. The trigger refuses a
write that changes the state in any other way.

Two rules make a repetition recognisable by the state alone, and are checked at the declaration: an event has one
target, and its target is not one of its sources. Without them, a repeated event would move a row twice.
"""

import re
from collections.abc import Mapping
from typing import Any

from interlock.errors import ConfigurationError, IllegalTransition, RetryTransaction
from interlock.idempotency.arguments import beside, column, quoted
from interlock.idempotency.decisions import Decision, Done, Refused, Replayed, decided
from interlock.user_connections import Steps, run_steps, run_steps_sync

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TRIES = 10

Transitions = Mapping[str, Mapping[str, str]]
"""State → event → next state."""


class StateMachine:
    """``StateMachine("shop.orders", {"new": {"pay": "paid"}, "paid": {"ship": "shipped"}})``

    A row begins in the first state. Its state is in `column`, of type text or an enum; `key` is the column that
    identifies rows.
    """

    def __init__(self, table: str, transitions: Transitions, *, column: str = "state", key: str = "id") -> None:
        self.table = table
        self.transitions = {state: dict(events) for state, events in transitions.items()}
        self._names = (table, column, key)
        self._targets = _targets(self.transitions)
        self.initial = next(iter(self.transitions))
        self.states = tuple(dict.fromkeys([*self.transitions, *self._targets.values()]))
        self.events = tuple(self._targets)
        self._check()

    def next_state(self, state: str, event: str) -> str:
        """Returns the next state, without a database. Raises `IllegalTransition` if `state` does not have `event`."""
        found = self.transitions.get(state, {}).get(event)
        if found is None:
            raise IllegalTransition(
                f"The state {state!r} of {self.table} does not have the event {event!r}: {self._known(state)}.",
                state=state,
                event=event,
            )
        return found

    def sources(self, event: str) -> tuple[str, ...]:
        """Returns the states that have the event."""
        if event not in self._targets:
            raise ConfigurationError(f"{self.table} has no event {event!r}: use one of {', '.join(self.events)}.")
        return tuple(state for state, events in self.transitions.items() if event in events)

    def target(self, event: str) -> str:
        """Returns the state to which the event leads."""
        self.sources(event)
        return self._targets[event]

    async def apply(
        self, connection: Any, key: Any, event: str, *, values: Mapping[str, Any] | None = None
    ) -> Decision:
        """Move the row to the event's target. `values` are further columns to write; a repetition does not write them.

        The decision's `value` is the state of the row. The decision is `Refused` if that state does not have the event,
        or if there is no such row.
        """
        return await run_steps(connection, self._apply(key, event, values or {}))

    def apply_sync(self, connection: Any, key: Any, event: str, *, values: Mapping[str, Any] | None = None) -> Decision:
        return run_steps_sync(connection, self._apply(key, event, values or {}))

    def guard(self, event: str) -> str:
        """Returns the UPDATE that applies the event, for programs in any language; ``$1`` is the row's key."""
        return self._guard(event, ())

    def install_sql(self, function: str | None = None) -> str:
        """Returns SQL that makes the database refuse any undeclared change of the state. Run it after each new
        declaration.

        `function` is a trigger function that several machines share; None creates one in the table's schema.
        """
        table, column, _ = self._quoted()
        short = beside(self.table, "state_machine").rpartition(".")[2]
        begin = beside(self.table, "state_machine_begin").rpartition(".")[2]
        name = quoted(function) if function else beside(self.table, "state_machine")
        moves = [(state, to) for state, events in self.transitions.items() for to in events.values()]
        pairs = ", ".join(f"({_text(state)}, {_text(to)})" for state, to in moves) or "(NULL, NULL)"
        return f"""\
{"" if function else self._function_sql(name)}DROP TRIGGER IF EXISTS {begin} ON {table};
CREATE TRIGGER {begin} AFTER INSERT ON {table} FOR EACH ROW
    WHEN (NEW.{column} IS DISTINCT FROM {_text(self.initial)}) EXECUTE FUNCTION {name}();
DROP TRIGGER IF EXISTS {short} ON {table};
CREATE TRIGGER {short} AFTER UPDATE ON {table} FOR EACH ROW
    WHEN (OLD.{column} IS DISTINCT FROM NEW.{column}
          AND ((OLD.{column}, NEW.{column}) IN ({pairs})) IS NOT TRUE) EXECUTE FUNCTION {name}();
"""

    def _function_sql(self, name: str) -> str:
        _, column, _ = self._quoted()
        return f"""\
CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $interlock$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME,
        SCHEMA = TG_TABLE_SCHEMA, MESSAGE = CASE TG_OP
            WHEN 'INSERT' THEN format('a row of %I does not begin in the state %L', TG_TABLE_NAME, NEW.{column})
            ELSE format('a row of %I does not go from %L to %L', TG_TABLE_NAME, OLD.{column}, NEW.{column}) END;
END
$interlock$;
"""

    def mermaid(self) -> str:
        """Returns the diagram in Mermaid's notation."""
        ends = [state for state in self.states if not self.transitions.get(state)]
        return "\n".join(
            [
                "stateDiagram-v2",
                f"    [*] --> {self.initial}",
                *(
                    f"    {state} --> {to}: {event}"
                    for state, events in self.transitions.items()
                    for event, to in events.items()
                ),
                *(f"    {state} --> [*]" for state in ends),
            ]
        )

    def _apply(self, key: Any, event: str, values: Mapping[str, Any]) -> Steps[Decision]:
        sources, target = self.sources(event), self._targets[event]
        table, state, id_ = self._quoted()
        for _ in range(_TRIES):
            rows = yield self._guard(event, tuple(values)), [key, *values.values()]
            if rows:
                return decided(Done(event, self.table, key, target))
            rows = yield f"SELECT CAST({state} AS text) FROM {table} WHERE {id_} = $1", [key]
            if not rows:
                return decided(Refused(event, self.table, key, None, "there is no such row"))
            found = rows[0][0]
            if found == target:
                return decided(Replayed(event, self.table, key, found))
            if found not in sources:  # otherwise it got there since the UPDATE: try again
                reason = f"the state {found!r} does not have this event: {self._known(found)}"
                return decided(Refused(event, self.table, key, found, reason))
        raise RetryTransaction(
            f"A row of {self.table} changed at each attempt: roll the transaction back and run it again.",
            sqlstate="40001",
        )

    def _guard(self, event: str, values: tuple[str, ...]) -> str:
        table, state, id_ = self._quoted()
        sources = ", ".join(map(_text, self.sources(event)))
        writes = "".join(f", {column(name)} = ${number}" for number, name in enumerate(values, 2))
        return (
            f"UPDATE {table} SET {state} = {_text(self._targets[event])}{writes} "
            f"WHERE {id_} = $1 AND {state} IN ({sources}) RETURNING 1"
        )

    def _quoted(self) -> tuple[str, str, str]:
        table, state, key = self._names
        return quoted(table), column(state), column(key)

    def _known(self, state: str) -> str:
        events = self.transitions.get(state)
        return f"its events are {', '.join(events)}" if events else "it has no events"

    def _check(self) -> None:
        self._quoted()
        for word in (*self.states, *self.events):
            if not isinstance(word, str) or not _WORD.fullmatch(word):
                raise ConfigurationError(
                    f"{word!r} cannot be the name of a state or an event: begin with a letter A-Z or a-z, then use "
                    "letters, digits and _."
                )
        for event, target in self._targets.items():
            if target in self.sources(event):
                raise ConfigurationError(
                    f"The event {event!r} leads to {target!r} and out of it, so a repetition would move a row twice: "
                    "give the two steps names of their own, or record the operation with once()."
                )


def _targets(transitions: Transitions) -> dict[str, str]:
    """Returns the target of each event."""
    if not transitions:
        raise ConfigurationError("A state machine without states cannot work: declare the state in which rows begin.")
    targets: dict[str, str] = {}
    for events in transitions.values():
        for event, target in events.items():
            if targets.setdefault(event, target) != target:
                raise ConfigurationError(
                    f"The event {event!r} leads to {targets[event]!r} and to {target!r}, so a repetition could not be "
                    "distinguished from a mistake: give the two events names of their own."
                )
    return targets


def _text(word: str) -> str:
    return f"'{word}'"
