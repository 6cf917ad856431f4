"""``interlock gate``: any migration command under the gate, and a look at who is in it."""

import functools
import getpass
import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any, Literal

import click

from interlock.cli.settings import connected, database, database_options, loaded, option, run
from interlock.errors import ConfigurationError

if TYPE_CHECKING:
    from interlock.config import Settings
    from interlock.gate.gate import Policy
    from interlock.gate.status import GateStatus


@click.group()
def gate() -> None:
    """The migration gate: of all replicas that start, one migrates."""


@gate.command("run", context_settings={"ignore_unknown_options": True})
@database_options
@option("gate_ttl", type=float)
@click.option("--key", metavar="APP", help="Tells apart applications that share a database and schema.")
@click.option("--target-schema", metavar="NAME", help="The schema that is migrated. [default: the search path's first]")
@click.option("--policy", type=click.Choice(["wait", "skip", "fail"]), default="wait", help="While another migrates.")
@click.option("--timeout", type=float, metavar="S", help="Wait at most this long. [default: while another migrates]")
@click.option("--check", metavar="CMD", help="Is the schema current? Exits with 0 yes, 1 no, 3 too new for us.")
@click.option("--version", metavar="N", help="What CMD migrates to: a number, or numbers with dots between them.")
@click.option("--compatible-since", metavar="N", help="The oldest version that can work with the schema after CMD.")
@click.option("--migration-role", metavar="ROLE", help="The role CMD logs in with, if not that of the URL.")
@click.option("--session-pooler", is_flag=True, help="The URL leads to a pooler, and that is in session mode.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
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

    Exits with COMMAND's own status; 0 if there was nothing to do; 75 if the gate was not passed; 74 if it was lost
    while COMMAND ran, which was then stopped.
    """
    from interlock.gate import AsyncGate, Timing
    from interlock.gate.running import ask_command, run_command

    settings = loaded(**flags)
    timing = Timing.of(settings)
    asking = functools.partial(ask_command, shlex.split(check), key or "") if check else None
    migration = AsyncGate(
        key,
        url=database(settings),
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
    sys.exit(run(run_command(migration, command, timing)))


@gate.command()
@database_options
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def status(as_json: bool, **flags: Any) -> None:
    """Show who is migrating what, since when, how far, and who waits."""
    from interlock.gate.status import read_gates

    async def work(settings: "Settings") -> "list[GateStatus]":
        async with await connected(settings) as session:
            return await read_gates(session, settings.schema)

    gates = run(work(loaded(**flags)))
    if as_json:
        click.echo(json.dumps([_facts(found) for found in gates], default=str))
    elif not gates:
        click.echo("No gate was ever used in this database.")
    else:
        click.echo("\n\n".join(map(_text, gates)))


@gate.command()
@database_options
@click.option("--force", is_flag=True, required=True, help="You know that the holder is to be stopped.")
@click.option("--gate", "name", metavar="NAME", help="As status shows it. [default: the only one]")
@click.option("--reason", help="For the record.")
def unlock(force: bool, name: str | None, reason: str | None, **flags: Any) -> None:
    """End the session that holds a gate: its migration is stopped, and the next replica takes over. Is recorded."""
    from interlock.gate import intervening
    from interlock.gate.status import find_gate

    async def work(settings: "Settings") -> None:
        async with await connected(settings) as session:
            found = await find_gate(session, settings.schema, name)
            pid = await intervening.unlock(session, settings.schema, found, reason=reason, by=_person())
        click.echo(f"The gate {found.gate} is unlocked: server process {pid} was ended.")

    run(work(loaded(**flags)))


@gate.command()
@database_options
@click.argument("text")
def report(text: str, **flags: Any) -> None:
    """From inside a migration command: tell status and waiters how far it is."""
    from interlock.gate.progress import gate_queries

    name, fence = os.environ.get("INTERLOCK_GATE"), os.environ.get("INTERLOCK_GATE_FENCE")
    if not name or not fence:
        raise ConfigurationError(
            "Not inside a gate: `interlock gate report` is for commands under `interlock gate run`."
        )

    async def work(settings: "Settings") -> None:
        async with await connected(settings) as session:
            await session.execute(gate_queries(settings.schema)["report_step"], name, int(fence), text)

    run(work(loaded(**flags)))


@gate.command()
@database_options
@click.option("--gate", "name", metavar="NAME", help="As status shows it. [default: the only one]")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def steps(name: str | None, as_json: bool, **flags: Any) -> None:
    """Show the ledger of steps on targets outside the database."""
    from interlock.gate.progress import gate_queries
    from interlock.gate.status import find_gate

    async def work(settings: "Settings") -> list[dict[str, Any]]:
        async with await connected(settings) as session:
            found = await find_gate(session, settings.schema, name)
            return [dict(row) for row in await session.fetch(gate_queries(settings.schema)["all_steps"], found.gate)]

    rows = run(work(loaded(**flags)))
    if as_json:
        click.echo(json.dumps(rows, default=str))
        return
    for row in rows:
        state = "done" if row["finished_at"] else f"HALF DONE{': ' + row['error'] if row['error'] else ''}"
        click.echo(f"{row['started_at']:%Y-%m-%d %H:%M:%S}  {row['step']}  {state}  ({row['replica']})")


@gate.command()
@database_options
@click.argument("step")
@click.option("--done/--again", "is_done", default=None, required=True, help="It has happened / it may run again.")
@click.option("--gate", "name", metavar="NAME", help="As status shows it. [default: the only one]")
@click.option("--reason", help="For the record.")
def settle(step: str, is_done: bool, name: str | None, reason: str | None, **flags: Any) -> None:
    """Say of a half-done STEP, after a look at its target, that it is done or that it may run again. Is recorded."""
    from interlock.gate import intervening
    from interlock.gate.status import find_gate

    async def work(settings: "Settings") -> None:
        async with await connected(settings) as session:
            found = await find_gate(session, settings.schema, name)
            answer: Literal["done", "again"] = "done" if is_done else "again"
            await intervening.settle(session, settings.schema, found.gate, step, answer, reason=reason, by=_person())

    run(work(loaded(**flags)))
    click.echo(f"Step {step!r} counts as done." if is_done else f"Step {step!r} may run again.")


def _person() -> str:
    return f"{getpass.getuser()}@{os.uname().nodename}"


def _facts(found: "GateStatus") -> dict[str, Any]:
    return {
        "gate": found.gate,
        "state": found.state,
        "lock": list(found.lock),
        **found.run,
        "holder": found.holder and vars(found.holder),
        "waiting": [vars(sitting) for sitting in found.waiting],
    }


def _text(found: "GateStatus") -> str:
    facts = {
        "gate": f"{found.gate} (lock {found.lock})",
        "state": found.state,
        "fence": found.run["fence"],
        "replica": f"{found.run['replica']} on {found.run['host']}",
        "version": found.run["version"],
        "started": found.run["started_at"],
        "heartbeat": found.run["heartbeat_at"],
        "step": found.run["step"],
        "ended": found.run["ended_at"] and f"{found.run['ended_at']} {found.run['outcome']}",
        "error": found.run["error"],
        "holder": found.holder and f"server process {found.holder.pid}",
        "waiting": ", ".join(sitting.name or f"server process {sitting.pid}" for sitting in found.waiting),
    }
    return "\n".join(f"{name + ':':<11}{value}" for name, value in facts.items() if value not in (None, ""))
