"""``interlock instance drift``: where what there is differs from what the records say."""

import json
from collections.abc import Sequence
from typing import Any

import click

from interlock.cli.output import escaped, json_option, time_text
from interlock.cli.record.confirmation import confirm
from interlock.cli.record.kind import Facts, time_of
from interlock.cli.server.options import server_for, server_options


@click.command()
@click.option("--look", is_flag=True, help="Look now, and not only when it is time to.")
@click.option("--closed", is_flag=True, help="Also what is over.")
@click.option(
    "--repair", "numbers", type=click.IntRange(1), multiple=True, metavar="NUMBER", help="Put that right; repeatable."
)
@click.option("--yes", is_flag=True, help="With --repair of an orphan: do not ask. Scripts have to say this.")
@json_option
@server_options
def drift(look: bool, closed: bool, numbers: tuple[int, ...], yes: bool, as_json: bool, **flags: Any) -> None:
    """Show where what there is differs from what the records say, and have it put right."""
    server = server_for(flags)
    if look:
        server.change("POST", "/drift/look")
    if numbers and not yes:
        _ask_about_orphans(server.get("/drift", limit=200)["items"], numbers)
    begun = []
    for number in numbers:
        begun.append(server.change("POST", f"/drift/{number}/repair"))
        if not as_json:
            click.echo(_begun(begun[-1]))
    if begun:
        if as_json:
            click.echo(json.dumps({"items": begun}))
        return
    found = server.get("/drift", closed="true" if closed else None, limit=200)
    click.echo(json.dumps(found) if as_json else _text(found["items"], found["looks"]))


def _ask_about_orphans(items: Sequence[Facts], numbers: Sequence[int]) -> None:
    """An orphan is removed, and may be somebody else's. So may be what is not listed."""
    listed = {one["id"]: one for one in items}
    for number in numbers:
        one = listed.get(number)
        if one is None or one["kind"] == "orphan":
            what = _line(one) if one else f"what is listed as {number}"
            confirm(f"{what}\nRemove it, with its data? This cannot be undone.", "remove it")


def _text(items: Sequence[Facts], looks: Sequence[Facts]) -> str:
    lines = [_line(one) for one in items] or ["Nothing is known to have drifted."]
    if not looks:
        lines.append("Nobody has looked yet: --look does.")
    return "\n".join([*lines, *map(_looked, looks)])


def _line(one: Facts) -> str:
    over = f", over since {time_text(time_of(one['closed_at']))}" if one["closed_at"] else ""
    name = one["name"] or one["instance"]
    since = time_text(time_of(one["found_at"]))
    return f"{one['id']}: {escaped(str(name))}, {escaped(one['kind'])}, since {since}{over}: {escaped(one['detail'])}"


def _looked(look: Facts) -> str:
    trouble = f", with trouble: {escaped(look['trouble'])}" if look["trouble"] else "."
    return f"The driver {escaped(look['driver'])} was looked at {time_text(time_of(look['looked_at']))}{trouble}"


def _begun(one: Facts) -> str:
    return f"{one['id']}: {escaped(str(one['repair']))} puts it right; the next look tells."
