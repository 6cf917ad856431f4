"""Prints the results of commands: as JSON for programs, and as text that is safe on a terminal."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)


def print_result(facts: Any, text: str, *, as_json: bool) -> None:
    click.echo(json.dumps(to_json(facts)) if as_json else text)


def to_json(value: Any) -> Any:
    """Turn dataclasses into objects, and times into ISO 8601."""
    match value:
        case datetime():
            return value.isoformat()
        case dict():
            return {name: to_json(inner) for name, inner in value.items()}
        case list() | tuple():
            return [to_json(inner) for inner in value]
        case _ if is_dataclass(value):
            return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
        case _:
            return value


def escaped(text: str) -> str:
    """Make text of unknown origin safe to print: its control characters do not reach the terminal."""
    return text if text.isprintable() else json.dumps(text)[1:-1]


def titled_lines(title: str, facts: Mapping[str, object]) -> str:
    """Returns the title, and an indented line for each fact that has a value."""
    return "\n".join([escaped(title), *(f"  {name}: {escaped(str(fact))}" for name, fact in facts.items() if fact)])


def duration_text(seconds: float) -> str:
    """Returns the rounded duration, in the largest unit that fits into it twice: ``4.0 s``, ``12 min``, ``3 h``."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def time_text(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S %Z}"
