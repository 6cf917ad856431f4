"""Commands that are the same for records of every kind, made from the declaration of the kind."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeVar

import click

from interlock.cli.output import escaped, json_option, time_text
from interlock.cli.record.api import PAGE, pages, path_of
from interlock.cli.record.conclusion import conclude, wait_options
from interlock.cli.record.kind import Facts, Kind, time_of
from interlock.cli.record.options import confirm, yes_option
from interlock.cli.server.options import server_for, server_options
from interlock.cli.terminal import terminal_width

F = TypeVar("F", bound=Callable[..., Any])


def list_options(command: F) -> F:
    """Add the options of a list. The command gets `states`, `deleted`, `limit` and `as_json` for `show_list`."""
    for option in (
        server_options,
        json_option,
        click.option("--limit", type=click.IntRange(1), help="The largest number of lines."),
        click.option("--deleted", is_flag=True, help="Show deleted records, too."),
        click.option(
            "--state", "states", metavar="STATE", multiple=True, help="Only records in this state; repeatable."
        ),
    ):
        command = option(command)
    return command


def show_list(
    kind: Kind,
    flags: dict[str, Any],
    *,
    states: tuple[str, ...],
    deleted: bool,
    limit: int | None,
    as_json: bool,
    **more: Any,
) -> None:
    """Print the records of the kind. `more` are further parameters of the API's list."""
    query = {
        **more,
        "state": states or None,
        "deleted": "true" if deleted else None,
        "limit": min(limit or PAGE, PAGE),
    }
    found = list(islice(pages(server_for(flags).get, kind.path, query), limit))
    click.echo(json.dumps(found) if as_json else kind.table(found, datetime.now(UTC), terminal_width()))


def show_command(kind: Kind, help_text: str) -> click.Command:
    @click.command("show", help=help_text)
    @click.argument("name", metavar=kind.argument)
    @json_option
    @server_options
    def show(name: str, as_json: bool, **flags: Any) -> None:
        found = server_for(flags).get(path_of(kind.path, name))
        click.echo(json.dumps(found) if as_json else kind.text(found))

    return show


def events_command(kind: Kind, help_text: str) -> click.Command:
    @click.command("events", help=help_text)
    @click.argument("name", metavar=kind.argument)
    @click.option(
        "--limit", type=click.IntRange(1, PAGE), default=50, show_default=True, help="Only the newest events."
    )
    @json_option
    @server_options
    def events(name: str, limit: int, as_json: bool, **flags: Any) -> None:
        newest = server_for(flags).get(path_of(kind.path, name, "events"), limit=limit)["items"]
        found = sorted(newest, key=lambda one: time_of(one["recorded_at"]))
        if as_json:
            click.echo(json.dumps(found))
        else:
            lines = (f"{time_text(time_of(one['recorded_at']))}  {kind.event_text(one)}" for one in found)
            click.echo("\n".join(lines))

    return events


def verb_command(
    kind: Kind, verb: str, help_text: str, failure: Callable[[Kind, Facts, Facts], str] | None = None
) -> click.Command:
    """Returns a command whose request needs only the record's name. `conclude` explains `failure`."""

    @click.command(verb, help=help_text)
    @click.argument("name", metavar=kind.argument)
    @wait_options
    @json_option
    @server_options
    def command(name: str, wait: bool, timeout: float | None, as_json: bool, **flags: Any) -> None:
        server = server_for(flags)
        requested = server.change("POST", path_of(kind.path, name, verb))
        conclude(server, kind, requested, wait=wait, timeout=timeout, as_json=as_json, failure=failure)

    return command


def confirmed_command(
    kind: Kind,
    command_name: str,
    help_text: str,
    question: str,
    action: str,
    *,
    method: str = "DELETE",
    verb: str = "",
) -> click.Command:
    """Returns a command that asks `question` before its request; ``{}`` in it stands for the name of the record.

    `confirm` explains `action`.
    """

    @click.command(command_name, help=help_text)
    @click.argument("name", metavar=kind.argument)
    @yes_option
    @wait_options
    @json_option
    @server_options
    def command(name: str, yes: bool, wait: bool, timeout: float | None, as_json: bool, **flags: Any) -> None:
        server = server_for(flags)
        if not yes:
            confirm(question.format(escaped(name)), action)
        requested = server.change(method, path_of(kind.path, name, *filter(None, [verb])))
        conclude(server, kind, requested, wait=wait, timeout=timeout, as_json=as_json)

    return command
