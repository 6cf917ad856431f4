"""``interlock schema``: Interlock's own tables, applied by this command or by a migration tool."""

from typing import TYPE_CHECKING, Any

import click

from interlock.cli.output import json_option, print_result
from interlock.cli.settings import database_options, load_settings, option, run, run_on_database, url_of_database
from interlock.errors import ConfigurationError
from interlock.schema import USES

if TYPE_CHECKING:
    from interlock.config import Settings
    from interlock.schema import SchemaStatus, Use
    from interlock.schema.migrations import Phase
    from interlock.stores.postgres import Session

_WITHOUT_SCHEMA = {
    "sqlite": "the first use of a SQLite file makes its tables",
    "dynamodb": "`interlock store create` makes the table in DynamoDB",
}


@click.group()
def schema() -> None:
    """Interlock's own tables: print, apply, grant, status."""


@schema.command("print")
@option("schema")
@click.option("--since", type=click.IntRange(min=1), metavar="VERSION", help="Only changes after this version.")
@click.option("--grant", "role", metavar="ROLE", help="Also the GRANTs for a role that uses Interlock.")
def print_(schema: str | None, since: int | None, role: str | None) -> None:
    """Print the schema as SQL, for a migration tool of your own."""
    from interlock.schema import changes_since, grant_sql, whole_schema

    name = load_settings(schema=schema).schema
    click.echo(whole_schema(name) if since is None else changes_since(since, name), nl=False)
    if role:
        click.echo("\n" + grant_sql(role, name), nl=False)


@schema.command()
@database_options
@click.option(
    "--post", is_flag=True, help="Also remove parts that only older releases use. Use it when none of them runs."
)
def apply(post: bool, **flags: Any) -> None:
    """Create the schema, or migrate it to this release. Several of these commands may run at once: they use a gate."""
    from interlock.gate import Timing
    from interlock.gate.schema_gate import SchemaGate

    settings = load_settings(**flags)
    url = url_of_database(settings)
    if instead := _WITHOUT_SCHEMA.get(url.partition("://")[0]):
        raise ConfigurationError(f"There is no schema to apply: {instead}.")
    phases: tuple[Phase, ...] = ("pre", "post") if post else ("pre",)
    own = SchemaGate(url, settings.schema, phases=phases, timing=Timing.of(settings))
    status = run(own.bring_up_to_date())
    newest = max(step.version for step in status.applied)
    click.echo(f"The schema {status.schema!r} is {status.state}, at version {newest}.")


@schema.command()
@click.argument("role")
@click.option(
    "--for",
    "uses",
    type=click.Choice(USES),
    multiple=True,
    help="Grant the rights for this use. Repeatable. [default: all uses]",
)
@database_options
def grant(role: str, uses: "tuple[Use, ...]", **flags: Any) -> None:
    """Grant ROLE only the rights that it needs to use Interlock, or one part of Interlock."""
    from interlock.schema import grant as grant_to

    async def work(session: "Session", settings: "Settings") -> str:
        await grant_to(session, role, settings.schema, uses or USES)
        return settings.schema

    click.echo(f"{role} may use the schema {run_on_database(work, flags)!r}.")


@schema.command()
@database_options
@json_option
def status(as_json: bool, **flags: Any) -> None:
    """Show whether this release can work with the schema. Exits with 1 if this release cannot work with it."""
    from interlock.schema import State, newest_version, read_status

    async def work(session: "Session", settings: "Settings") -> "SchemaStatus":
        return await read_status(session, settings.schema)

    found = run_on_database(work, flags)
    facts = {
        "schema": found.schema,
        "state": found.state.value,
        "version": max((step.version for step in found.applied), default=None),
        "release_version": newest_version(),
        "pending": [f"{migration.step.version:04} {migration.name}" for migration in found.pending],
    }
    print_result(facts, "\n".join(f"{name}: {_text(facts[name])}" for name in facts), as_json=as_json)
    if found.state not in (State.CURRENT, State.NEWER):
        raise SystemExit(1)


def _text(value: str | int | list[str] | None) -> str:
    return ", ".join(value) or "none" if isinstance(value, list) else str(value or "none")
