"""``interlock key``: keys to the API, for use from other machines. Works on the database, without a running server."""

from typing import TYPE_CHECKING, Any

import click

from interlock.cli.failure import NothingToDo
from interlock.cli.output import escaped, json_option, print_result, time_text, to_json
from interlock.cli.settings import database_options, run_on_database

if TYPE_CHECKING:
    from interlock.config import Settings
    from interlock.keys.records import KeyRecord, Keys
    from interlock.stores.postgres import Session


@click.group()
def key() -> None:
    """Keys to the API: create, list, revoke."""


@key.command()
@click.argument("name")
@json_option
@database_options
def create(name: str, as_json: bool, **flags: Any) -> None:
    """Make a key for NAME, and print the key. It is never shown again."""

    async def work(session: "Session", settings: "Settings") -> "tuple[str, KeyRecord]":
        return await (await _keys(session, settings)).create(session, name)

    made, record = run_on_database(work, flags)
    print_result({"key": made, **to_json(record)}, made, as_json=as_json)


@key.command("list")
@json_option
@database_options
def list_(as_json: bool, **flags: Any) -> None:
    """Show the keys. Their secrets are not stored."""

    async def work(session: "Session", settings: "Settings") -> "list[KeyRecord]":
        return await (await _keys(session, settings)).list(session)

    found = run_on_database(work, flags)
    print_result(found, "\n".join(map(_line, found)) or "There is no key in this database.", as_json=as_json)


@key.command()
@click.argument("id")
@json_option
@database_options
def revoke(id: str, as_json: bool, **flags: Any) -> None:  # noqa: A002
    """Revoke the key ID. The server refuses the key from its next request on. Exits with 1 if there is no such key."""

    async def work(session: "Session", settings: "Settings") -> "KeyRecord | None":
        return await (await _keys(session, settings)).revoke(session, id)

    if (record := run_on_database(work, flags)) is None:
        raise NothingToDo(f"There is no key {id!r} in this database: `interlock key list` shows all keys.")
    print_result(record, _line(record), as_json=as_json)


async def _keys(session: "Session", settings: "Settings") -> "Keys":
    from interlock.keys.records import Keys
    from interlock.schema import read_status

    (await read_status(session, settings.schema)).require()
    return Keys(settings.schema)


def _line(one: "KeyRecord") -> str:
    used = f"last used {time_text(one.last_used_at)}" if one.last_used_at else "never used"
    revoked = f", revoked {time_text(one.revoked_at)}" if one.revoked_at else ""
    return f"{one.id}: {escaped(one.name)}, made {time_text(one.created_at)}, {used}{revoked}"
