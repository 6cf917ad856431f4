"""``interlock store``: a table of DynamoDB for leases, made or looked at by whoever may do that."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NoReturn

import click

from interlock.cli.facts import json_option, tell
from interlock.cli.settings import loaded, run
from interlock.errors import ConfigurationError

if TYPE_CHECKING:
    from interlock.stores.dynamodb.client import Client
    from interlock.stores.dynamodb.table import LeaseTable


@click.group()
def store() -> None:
    """Tables for leases, where they are not in PostgreSQL: create, check."""


@store.command()
@click.argument("url", required=False)
@click.option("--key", default="lock_key", show_default=True, metavar="NAME", help="What a new table's key is called.")
def create(url: str | None, key: str) -> None:
    """Make the DynamoDB table of URL ready for leases.

    Creates what is missing: the table, the index by which leases are listed, and deletion by ttl. What is there stays.
    """

    async def work(client: "Client") -> "LeaseTable":
        from interlock.stores.dynamodb.table import create

        return await create(client, key)

    click.echo(_text(*_on_table(url, work)))


@store.command()
@click.argument("url", required=False)
@json_option
def check(url: str | None, as_json: bool) -> None:
    """Look whether the DynamoDB table of URL can serve."""

    async def work(client: "Client") -> "LeaseTable":
        from interlock.stores.dynamodb.table import examine

        return await examine(client)

    name, table = _on_table(url, work)
    tell({"table": name, **table._asdict(), "lacks": table.lacks}, _text(name, table), as_json=as_json)


def _text(name: str, table: "LeaseTable") -> str:
    lacks = [f"It lacks {missing}." for missing in table.lacks]
    return "\n".join([f"The table {name!r} can serve; its key is {table.key!r}.", *lacks])


def _on_table(url: str | None, work: "Callable[[Client], Awaitable[LeaseTable]]") -> "tuple[str, LeaseTable]":
    """The table's name, and what `work` found there."""
    from interlock.coordination.backends.dynamodb import require_driver
    from interlock.stores.dynamodb.address import parsed

    require_driver()
    from interlock.stores.dynamodb.client import Client

    address = parsed(url or loaded().database_url or _none_named())

    async def connected() -> "LeaseTable":
        client = Client(address)
        try:
            return await work(client)
        finally:
            await client.close()

    return address.table, run(connected())


def _none_named() -> NoReturn:
    command = click.get_current_context().command_path
    raise ConfigurationError(
        f"No table was named: `{command} dynamodb://table?region=…`, or set INTERLOCK_DATABASE_URL."
    )
