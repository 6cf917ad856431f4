"""``interlock lease``: shows the holders and waiters of leases, and breaks a lease."""

from typing import TYPE_CHECKING, Any

import click

from interlock.cli.failure import NothingToDo
from interlock.cli.output import json_option, print_result
from interlock.cli.record.options import confirm, require_terminal, yes_option
from interlock.cli.settings import database_options, operator_name, run_on_leases
from interlock.cli.terminal import terminal_width

if TYPE_CHECKING:
    from interlock.coordination.operators import LeaseOperator
    from interlock.coordination.operators.status import Broken, LeaseDetails, LeaseStatus
    from interlock.coordination.operators.waits import Wait


@click.group()
def lease() -> None:
    """Leases: their holders and their waiters."""


@lease.command("list")
@click.argument("prefix", default="")
@click.option("--all", "all_names", is_flag=True, help="Show Interlock's own names, too, such as sweep##every.")
@click.option("--held", is_flag=True, help="Only leases that are held.")
@click.option("--waited", is_flag=True, help="Only leases with waiters.")
@json_option
@database_options
def list_(prefix: str, all_names: bool, held: bool, waited: bool, as_json: bool, **flags: Any) -> None:
    """Show the leases whose names begin with PREFIX, sorted by name.

    Without PREFIX, the list leaves out names that Interlock made for itself: they contain ##, or begin with interlock:.
    """
    from interlock.cli.lease_presentation import lease_as_json, leases_as_table
    from interlock.coordination.lease.name import is_internal

    async def work(operator: "LeaseOperator") -> "list[LeaseStatus]":
        return await operator.leases(prefix, only_held=held, only_waited=waited)

    found = run_on_leases(work, flags)
    leases = found if all_names or prefix else [lease for lease in found if not is_internal(lease.name)]
    narrowed = prefix or held or waited
    none = "There is no such lease in this database." if narrowed else "No lease is known in this database."
    text = leases_as_table(leases, terminal_width()) if leases else none
    if hidden := len(found) - len(leases):
        text += f"\nNot shown: {hidden} of Interlock's own names. Use --all to show them."
    print_result(list(map(lease_as_json, leases)), text, as_json=as_json)


@lease.command()
@click.argument("name")
@json_option
@database_options
def show(name: str, as_json: bool, **flags: Any) -> None:
    """Show the holder of the lease NAME, since when and from where it holds the lease, and the waiters.

    Exits with 1 if no lease of that name was used.
    """
    from interlock.cli.lease_presentation import details_as_json, lease_as_text

    async def work(operator: "LeaseOperator") -> "LeaseDetails":
        return await _found(operator, name)

    found = run_on_leases(work, flags)
    print_result(details_as_json(found), lease_as_text(found), as_json=as_json)


@lease.command()
@json_option
@database_options
def waits(as_json: bool, **flags: Any) -> None:
    """Show which process waits for which, and processes that wait in a circle."""
    from interlock.cli.lease_presentation import waits_as_json, waits_as_text

    async def work(operator: "LeaseOperator") -> "list[Wait]":
        return await operator.waits()

    found = run_on_leases(work, flags)
    print_result(waits_as_json(found), waits_as_text(found), as_json=as_json)


@lease.command("break")
@click.argument("name")
@click.option("--now", "immediate", is_flag=True, help="Free the lease at once, even if its holder still works.")
@click.option("--terminate", is_flag=True, help="Also end the database sessions whose transactions guard it.")
@click.option("--reason", metavar="TEXT", help="The reason, which is recorded and sent to the holder.")
@yes_option
@json_option
@database_options
def break_(
    name: str, immediate: bool, terminate: bool, reason: str | None, yes: bool, as_json: bool, **flags: Any
) -> None:
    """Take the lease NAME from its holder.

    The holder is notified at its next renewal, with --reason, and has to stop then. The next waiter gets the lease when
    the holder has released it, at the latest when the holder's ttl is over, or at once with --now. The command
    leaves a row in interlock.lease_intervention. Exits with 1 if the lease is not held.
    """
    from interlock.cli.lease_presentation import broken_as_json, broken_as_text, lease_as_text

    if not yes:
        require_terminal(f"break the lease {name!r}")

    async def work(operator: "LeaseOperator") -> "Broken":
        found = await _found(operator, name)
        broken = None
        if found.lease.holding or (terminate and found.guards):
            if not yes:
                click.echo(lease_as_text(found), err=True)
                confirm("Take the lease from its holder?", f"break the lease {name!r}")
            broken = await operator.break_lease(
                name, immediate=immediate, terminate=terminate, reason=reason, by=operator_name()
            )
        if broken is None:
            raise NothingToDo(f"The lease {name!r} is not held: nothing was changed.")
        return broken

    broken = run_on_leases(work, flags)
    print_result(broken_as_json(broken), broken_as_text(broken, immediate=immediate), as_json=as_json)


async def _found(operator: "LeaseOperator", name: str) -> "LeaseDetails":
    """Returns the lease, or else the only lease that Interlock made under that name, as for a recorded operation."""
    from interlock.coordination.lease.name import checked_name

    if found := await operator.lease(checked_name(name)):
        return found
    parts = await operator.leases(f"{name}##", only_held=False, only_waited=False)
    if len(parts) == 1 and (found := await operator.lease(parts[0].name)):
        return found
    if parts:
        raise NothingToDo(
            f"There is no lease {name!r} in this database, but {len(parts)} leases are parts of it: "
            f"`interlock lease list '{name}##'` shows them."
        )
    raise NothingToDo(
        f"There is no lease {name!r} in this database: it was never used, or last used over a week ago. "
        "`interlock gate status` shows gates."
    )
