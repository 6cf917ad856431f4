"""The expected cost of statements, including those inside functions, by the server's planner.

A statement with a high expected cost is compiled first (`jit`, which is on by default), at each execution: 100 ms for a
statement that takes half a millisecond.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

_EXPLAIN = """
    LOAD 'auto_explain';
    SET auto_explain.log_nested_statements = on; SET auto_explain.log_min_duration = 0; SET client_min_messages = log;
"""
_COST = re.compile(r"\.\.(\d+\.\d+) rows=")


class Plans(list[str]):
    """The plans of executed statements, as EXPLAIN prints them."""

    def too_long(self, connection: "psycopg.Connection[Any]") -> list[str]:
        """The plans that the server would compile, if it can."""
        limit = connection.execute("SELECT current_setting('jit_above_cost')::float8").fetchone()
        assert limit is not None
        return [plan for plan in self if max(map(float, _COST.findall(plan)), default=0.0) > limit[0]]


@contextmanager
def plans(connection: "psycopg.Connection[Any]") -> Iterator[Plans]:
    """The plans of all statements of the connection in the block. Its role has to be a superuser."""
    found = Plans()

    def note(said: psycopg.errors.Diagnostic) -> None:
        if "Query Text:" in (text := said.message_primary or ""):
            found.append(text)

    connection.execute(_EXPLAIN)
    connection.add_notice_handler(note)
    try:
        yield found
    finally:
        connection.remove_notice_handler(note)
        connection.execute("RESET client_min_messages; RESET auto_explain.log_min_duration")
