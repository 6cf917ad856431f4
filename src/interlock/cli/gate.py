"""``interlock gate``: runs a migration command under the gate, and shows and repairs gates."""

import functools
import os
from typing import TYPE_CHECKING, Any, Literal

import click

from interlock.cli.command import CommandAfterDashes, exit_with
from interlock.cli.duration import DURATION, METAVAR
from interlock.cli.output import json_option, print_result
from interlock.cli.settings import (
    database_options,
    load_settings,
    operator_name,
    option,
    run_on_database,
    url_of_database,
)
from interlock.cli.terminal import terminal_width
from interlock.errors import ConfigurationError

if TYPE_CHECKING:
    from interlock.config import Settings
    from interlock.gate.gate import Policy
    from interlock.gate.status import GateStatus
    from interlock.stores.postgres import Session


@click.group()
def gate() -> None:
    """The migration gate: of all replicas that start, one migrates."""


@gate.command("run", cls=CommandAfterDashes)
@click.option("--key", metavar="APP", help="The application, if several share a database and schema.")
@click.option("--check", metavar="LINE", help="A shell command. It exits with 0: current, 1: migrate, 3: too new.")
@click.option("--version", metavar="N", help="The version that COMMAND migrates to, for example 42 or 1.4.2.")
@click.option("--compatible-since", metavar="N", help="The oldest version that can work with the schema afterwards.")
@click.option(
    "--policy",
    type=click.Choice(["wait", "skip", "fail"]),
    default="wait",
    show_default=True,
    help="What to do while another replica migrates.",
)
@click.option("--timeout", type=DURATION, metavar=METAVAR, help="Wait at most this long. [default: no limit]")
@click.option("--migration-role", metavar="ROLE", help="The role that only COMMAND logs in with.")
@click.option("--target-schema", metavar="NAME", help="The schema that is migrated. [default: the search path's first]")
@click.option("--session-pooler", is_flag=True, help="The URL is that of a pooler in session mode.")
@option("gate_ttl", type=DURATION, metavar=METAVAR)
@database_options
def run_(
    command: tuple[str, ...],
    key: str | None,
    target_schema: str | None,
    policy: "Policy",
    timeout: float | None,
    check: str | None,
    version: str | None,
    compatible_since: str | None,
    migration_role: str | None,
    session_pooler: bool,
    **flags: Any,
) -> None:
    """Run COMMAND if this replica is the one to migrate.

    For example: interlock gate run --key shop -- ./manage.py migrate

    Without --check or --version every replica runs COMMAND, one after the other.

    Exits with COMMAND's own status; 0 if there was nothing to do; 75 if the gate was not passed; 74 if the gate was
    lost while COMMAND ran: COMMAND was then stopped.
    """
    from interlock.embedded import with_socket_parameter
    from interlock.gate import AsyncGate, Timing
    from interlock.gate.command import check_by_command, run_command

    settings = load_settings(**flags)
    timing = Timing.of(settings)
    url = url_of_database(settings)
    variables = {"INTERLOCK_DATABASE_URL": with_socket_parameter(url), "INTERLOCK_SCHEMA": settings.schema}
    environment = os.environ | variables
    asking = functools.partial(check_by_command, check, key or "", environment) if check else None
    migration = AsyncGate(
        key,
        url=url,
        own_schema=settings.schema,
        target_schema=target_schema,
        check=asking,
        version=version,
        compatible_since=compatible_since,
        policy=policy,
        timeout=timeout,
        migration_role=migration_role,
        session_pooler=session_pooler,
        timing=timing,
    )
    exit_with(run_command(migration, command, timing, environment))


@gate.command()
@database_options
@json_option
def status(as_json: bool, **flags: Any) -> None:
    """Show each gate: the replica that migrates, since when and at which step, and the waiters."""
    from interlock.cli.gate_presentation import gate_as_json, gate_as_text
    from interlock.gate.status import read_gates

    async def work(session: "Session", settings: "Settings") -> "list[GateStatus]":
        return await read_gates(session, settings.schema)

    gates = run_on_database(work, flags)
    text = "\n\n".join(map(gate_as_text, gates)) or "No gate was used in this database."
    print_result(list(map(gate_as_json, gates)), text, as_json=as_json)


@gate.command()
@database_options
@click.option("--force", is_flag=True, required=True, help="Required, because it stops the holder's migration.")
@click.option("--gate", "name", metavar="NAME", help="As status shows it. [default: the only one]")
@click.option("--reason", help="Recorded in interlock.gate_intervention.")
def unlock(force: bool, name: str | None, reason: str | None, **flags: Any) -> None:
    """Stop the migration that holds a gate, by force.

    Ends the database session that holds the gate; the next replica takes over as after a crash. The command leaves a
    row in interlock.gate_intervention.
    """
    from interlock.gate import intervention
    from interlock.gate.status import find_gate

    async def work(session: "Session", settings: "Settings") -> None:
        found = await find_gate(session, settings.schema, name)
        pid = await intervention.unlock(session, settings.schema, found, reason=reason, by=operator_name())
        click.echo(f"The gate {found.gate} is unlocked: server process {pid} was ended.")

    run_on_database(work, flags)


@gate.command()
@database_options
@click.argument("text")
def report(text: str, **flags: Any) -> None:
    """Report how far a migration is, from inside its command."""
    from interlock.gate.progress import gate_queries

    name, fence = os.environ.get("INTERLOCK_GATE"), os.environ.get("INTERLOCK_GATE_FENCE")
    if not name or not fence:
        raise ConfigurationError(
            "This process does not run under a gate: call `interlock gate report` inside `interlock gate run`."
        )

    async def work(session: "Session", settings: "Settings") -> None:
        await session.execute(gate_queries(settings.schema)["report_step"], name, int(fence), text)

    run_on_database(work, flags)


@gate.command()
@database_options
@click.option("--gate", "name", metavar="NAME", help="As status shows it. [default: the only one]")
@json_option
def steps(name: str | None, as_json: bool, **flags: Any) -> None:
    """Show the recorded steps of migrations on systems outside the database."""
    from interlock.cli.gate_presentation import steps_as_table
    from interlock.gate.progress import gate_queries
    from interlock.gate.status import find_gate

    async def work(session: "Session", settings: "Settings") -> list[dict[str, Any]]:
        found = await find_gate(session, settings.schema, name)
        return [dict(row) for row in await session.fetch(gate_queries(settings.schema)["all_steps"], found.gate)]

    rows = run_on_database(work, flags)
    text = steps_as_table(rows, terminal_width()) if rows else "No step was ever begun at this gate."
    print_result(rows, text, as_json=as_json)


@gate.command()
@database_options
@click.argument("step")
@click.option("--done", "answer", flag_value="done", help="The step has happened.")
@click.option("--again", "answer", flag_value="again", help="The step may run again.")
@click.option("--gate", "name", metavar="NAME", help="As status shows it. [default: the only one]")
@click.option("--reason", help="Recorded in interlock.gate_intervention.")
def settle(
    step: str, answer: Literal["done", "again"] | None, name: str | None, reason: str | None, **flags: Any
) -> None:
    """Record that a half-done STEP is done, or that it may run again.

    First look at the system that the step changes. The command leaves a row in interlock.gate_intervention.
    """
    if answer is None:
        raise click.UsageError("The command needs an answer: use --done or --again.")
    from interlock.gate import intervention
    from interlock.gate.status import find_gate

    async def work(session: "Session", settings: "Settings") -> None:
        found = await find_gate(session, settings.schema, name)
        await intervention.settle(session, settings.schema, found.gate, step, answer, reason=reason, by=operator_name())

    run_on_database(work, flags)
    click.echo(f"Step {step!r} counts as done." if answer == "done" else f"Step {step!r} may run again.")
