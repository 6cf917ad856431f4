"""``interlock store``: creates and checks a DynamoDB table for leases."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NoReturn

import click

from interlock.cli.output import json_option, print_result
from interlock.cli.settings import load_settings, run
from interlock.errors import ConfigurationError

if TYPE_CHECKING:
    from interlock.stores.dynamodb.client import Client
    from interlock.stores.dynamodb.table import LeaseTable


@click.group()
def store() -> None:
    """Create or check a DynamoDB table for leases."""


@store.command()
@click.argument("url", required=False)
@click.option(
    "--key", default="lock_key", show_default=True, metavar="NAME", help="The name of the key, if a table is created."
)
def create(url: str | None, key: str) -> None:
    """Make the DynamoDB table of URL ready for leases.

    The command creates the parts that are missing: the table, the index that lists the leases, and deletion by ttl.
    It does not change existing parts.
    """

    async def work(client: "Client") -> "LeaseTable":
        from interlock.stores.dynamodb.table import create

        return await create(client, key)

    click.echo(_text(*_on_table(url, work)))


@store.command()
@click.argument("url", required=False)
@json_option
def check(url: str | None, as_json: bool) -> None:
    """Check whether the DynamoDB table of URL can keep leases."""

    async def work(client: "Client") -> "LeaseTable":
        from interlock.stores.dynamodb.table import examine

        return await examine(client)

    name, table = _on_table(url, work)
    print_result({"table": name, **table._asdict(), "lacks": table.lacks}, _text(name, table), as_json=as_json)


def _text(name: str, table: "LeaseTable") -> str:
    lacks = [f"It lacks {missing}." for missing in table.lacks]
    return "\n".join([f"The table {name!r} can serve; its key is {table.key!r}.", *lacks])


def _on_table(url: str | None, work: "Callable[[Client], Awaitable[LeaseTable]]") -> "tuple[str, LeaseTable]":
    """Run `work` on the table that `url` or the settings name. Returns the table's name and the result of `work`."""
    from interlock.coordination.backends.dynamodb import require_driver
    from interlock.stores.dynamodb.address import parsed

    require_driver()
    from interlock.stores.dynamodb.client import Client

    address = parsed(url or load_settings().database_url or _no_table_named())

    async def connected() -> "LeaseTable":
        client = Client(address)
        try:
            return await work(client)
        finally:
            await client.close()

    return address.table, run(connected())


def _no_table_named() -> NoReturn:
    command = click.get_current_context().command_path
    raise ConfigurationError(
        f"No DynamoDB table was named: run `{command} dynamodb://TABLE?region=REGION`, or set INTERLOCK_DATABASE_URL "
        "to that URL."
    )
