"""What a command found out, as JSON takes it and as a terminal may show it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="For programs.")(command)


def tell(facts: Any, text: str, *, as_json: bool) -> None:
    click.echo(json.dumps(plain(facts)) if as_json else text)


def plain(value: Any) -> Any:
    """For JSON: dataclasses are objects, times are as ISO 8601 has them."""
    match value:
        case datetime():
            return value.isoformat()
        case dict():
            return {name: plain(inner) for name, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case _ if is_dataclass(value):
            return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        case _:
            return value


def shown(text: str) -> str:
    """Text that others wrote: escapes in it are not to act on the terminal of whoever reads it."""
    return text if text.isprintable() else json.dumps(text)[1:-1]


def listed(title: str, facts: Mapping[str, object]) -> str:
    """A title, and below it a line for each of the facts that there are."""
    return "\n".join([shown(title), *(f"  {name}: {shown(str(fact))}" for name, fact in facts.items() if fact)])


def spoken(seconds: float) -> str:
    """How long, as a person would say it."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def moment(when: datetime) -> str:
    return f"{when:%Y-%m-%d %H:%M:%S %Z}"
