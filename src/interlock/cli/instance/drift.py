"""``interlock instance drift``: differences between the records and the drivers."""

import json
from collections.abc import Sequence
from typing import Any

import click

from interlock.cli.output import escaped, json_option, time_text
from interlock.cli.record.kind import Facts, time_of
from interlock.cli.record.options import confirm
from interlock.cli.server.options import server_for, server_options


@click.command()
@click.option("--look", is_flag=True, help="Compare records and drivers now, not at the next interval.")
@click.option("--closed", is_flag=True, help="Show resolved differences too.")
@click.option(
    "--repair", "numbers", type=click.IntRange(1), multiple=True, metavar="NUMBER", help="Repair this one; repeatable."
)
@click.option("--yes", is_flag=True, help="With --repair of an orphan: do not ask for confirmation.")
@json_option
@server_options
def drift(look: bool, closed: bool, numbers: tuple[int, ...], yes: bool, as_json: bool, **flags: Any) -> None:
    """Show drift, and repair it. Drift is a difference between an instance's record and the driver's objects."""
    server = server_for(flags)
    if look:
        server.change("POST", "/drift/look")
    if numbers and not yes:
        _ask_about_orphans(server.get("/drift", limit=200)["items"], numbers)
    repairs = []
    for number in numbers:
        repairs.append(server.change("POST", f"/drift/{number}/repair"))
        if not as_json:
            click.echo(_repair_line(repairs[-1]))
    if repairs:
        if as_json:
            click.echo(json.dumps({"items": repairs}))
        return
    found = server.get("/drift", closed="true" if closed else None, limit=200)
    click.echo(json.dumps(found) if as_json else _text(found["items"], found["looks"]))


def _ask_about_orphans(items: Sequence[Facts], numbers: Sequence[int]) -> None:
    """Ask before the repair of an orphan: it removes the orphan, which may belong to another system.

    A number that is not listed may be an orphan, too.
    """
    listed = {one["id"]: one for one in items}
    for number in numbers:
        one = listed.get(number)
        if one is None or one["kind"] == "orphan":
            subject = _line(one) if one else f"The difference {number}, which is not listed"
            confirm(f"{subject}\nRemove it, with its data? This cannot be undone.", "remove it")


def _text(items: Sequence[Facts], comparisons: Sequence[Facts]) -> str:
    lines = [_line(one) for one in items] or ["No drift is known."]
    if not comparisons:
        lines.append("No driver has been compared yet: --look compares now.")
    return "\n".join([*lines, *map(_comparison_line, comparisons)])


def _line(one: Facts) -> str:
    over = f", resolved since {time_text(time_of(one['closed_at']))}" if one["closed_at"] else ""
    name = one["name"] or one["instance"]
    since = time_text(time_of(one["found_at"]))
    return f"{one['id']}: {escaped(str(name))}, {escaped(one['kind'])}, since {since}{over}: {escaped(one['detail'])}"


def _comparison_line(comparison: Facts) -> str:
    error = f", with an error: {escaped(comparison['trouble'])}" if comparison["trouble"] else "."
    at = time_text(time_of(comparison["looked_at"]))
    return f"The driver {escaped(comparison['driver'])} was compared at {at}{error}"


def _repair_line(one: Facts) -> str:
    return f"{one['id']}: {escaped(str(one['repair']))} repairs it; the next comparison shows the result."
