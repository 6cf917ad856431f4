"""``interlock claim``: who owns which names, and who owned them."""

from typing import TYPE_CHECKING, Any

import click

from interlock.cli.facts import json_option, moment, shown, tell
from interlock.cli.failure import NothingToDo
from interlock.cli.settings import database_options, on_database

if TYPE_CHECKING:
    from interlock.config import Settings
    from interlock.coordination.claims.results import Owned
    from interlock.stores.postgres import Session


@click.group()
def claim() -> None:
    """Name claims: who owns which names, and who owned them."""


@claim.command("list")
@click.argument("scope", required=False)
@click.option("--owner", metavar="ID", help="Only what belongs to this one.")
@click.option("--past", is_flag=True, help="Also what was released.")
@json_option
@database_options
def list_(scope: str | None, owner: str | None, past: bool, as_json: bool, **flags: Any) -> None:
    """Show the names in SCOPE, or in all scopes, and their owners."""
    found = _read(flags, scope, None, owner, past)
    tell(found, "\n".join(map(_line, found)) or "There is no such claim in this database.", as_json=as_json)


@claim.command()
@click.argument("scope")
@click.argument("name")
@json_option
@database_options
def show(scope: str, name: str, as_json: bool, **flags: Any) -> None:
    """Say who owns NAME in SCOPE, and who has owned it before. Exits with 1 if nobody ever has."""
    found = _read(flags, scope, name, None, past=True)
    if not found:
        raise NothingToDo(f"Nobody has claimed the name {name!r} in the scope {scope!r}.")
    tell(found, "\n".join(map(_line, found)), as_json=as_json)


def _read(flags: dict[str, Any], scope: str | None, name: str | None, owner: str | None, past: bool) -> "list[Owned]":
    async def work(session: "Session", settings: "Settings") -> "list[Owned]":
        from interlock.coordination.claims.queries import read_claims
        from interlock.schema import read_status

        (await read_status(session, settings.schema)).require()
        return await read_claims(session, settings.schema, scope, name, owner, past=past)

    return on_database(work, flags)


def _line(one: "Owned") -> str:
    to = f", passed on to {shown(one.passed_to)}" if one.passed_to else ""
    until = "" if one.released_at is None else f", released {moment(one.released_at)}{to}"
    return f"{shown(one.scope)} {shown(one.name)}: {shown(one.owner)}, since {moment(one.since)}{until}"
