"""``interlock claim``: the owners of claimed names, now and in the past."""

from typing import TYPE_CHECKING, Any

import click

from interlock.cli.failure import NothingToDo
from interlock.cli.output import escaped, json_option, print_result, time_text
from interlock.cli.settings import database_options, run_on_database

if TYPE_CHECKING:
    from interlock.config import Settings
    from interlock.coordination.claims.results import Owned
    from interlock.stores.postgres import Session


@click.group()
def claim() -> None:
    """Name claims: their owners, now and in the past."""


@claim.command("list")
@click.argument("scope", required=False)
@click.option("--owner", metavar="ID", help="Only names of this owner.")
@click.option("--past", is_flag=True, help="Show released names, too.")
@json_option
@database_options
def list_(scope: str | None, owner: str | None, past: bool, as_json: bool, **flags: Any) -> None:
    """Show the names in SCOPE, or in all scopes, and their owners."""
    found = _read(flags, scope, None, owner, past)
    print_result(found, "\n".join(map(_line, found)) or "There is no such claim in this database.", as_json=as_json)


@claim.command()
@click.argument("scope")
@click.argument("name")
@json_option
@database_options
def show(scope: str, name: str, as_json: bool, **flags: Any) -> None:
    """Show the owner of NAME in SCOPE, and the earlier owners. Exits with 1 if NAME was never claimed."""
    found = _read(flags, scope, name, None, past=True)
    if not found:
        raise NothingToDo(f"The name {name!r} was never claimed in the scope {scope!r}.")
    print_result(found, "\n".join(map(_line, found)), as_json=as_json)


def _read(flags: dict[str, Any], scope: str | None, name: str | None, owner: str | None, past: bool) -> "list[Owned]":
    async def work(session: "Session", settings: "Settings") -> "list[Owned]":
        from interlock.coordination.claims.queries import read_claims
        from interlock.schema import read_status

        (await read_status(session, settings.schema)).require()
        return await read_claims(session, settings.schema, scope, name, owner, past=past)

    return run_on_database(work, flags)


def _line(one: "Owned") -> str:
    to = f", passed on to {escaped(one.passed_to)}" if one.passed_to else ""
    until = "" if one.released_at is None else f", released {time_text(one.released_at)}{to}"
    return f"{escaped(one.scope)} {escaped(one.name)}: {escaped(one.owner)}, since {time_text(one.since)}{until}"
