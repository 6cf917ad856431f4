"""``interlock members``: the live members of a group."""

import json
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.lease_options import open_root
from interlock.cli.output import duration_text, escaped, json_option, print_result, time_text
from interlock.cli.settings import database_options, run

if TYPE_CHECKING:
    from interlock.coordination.primitives.membership import Member
    from interlock.coordination.root import AsyncInterlock


@click.command()
@click.argument("group")
@json_option
@database_options
def members(group: str, as_json: bool, **flags: Any) -> None:
    """Show the members of GROUP: each member's process, metadata, and the time at which it joined."""
    locks, _ = open_root(flags)
    found = run(_read(locks, group))
    print_result(found, "\n".join(map(_line, found)) or "The group has no members.", as_json=as_json)


async def _read(locks: "AsyncInterlock", group: str) -> "list[Member]":
    try:
        return await locks.members(group)
    finally:
        await locks.close()


def _line(member: "Member") -> str:
    process = f"process {member.pid}" if member.pid is not None else None
    host = f"on {escaped(member.host)}" if member.host else None
    place = " ".join(filter(None, (process, host)))
    metadata = "" if member.metadata is None else f", {escaped(json.dumps(member.metadata, ensure_ascii=False))}"
    name = escaped(member.holder or "a process without a name") + (f" ({place})" if place else "")
    return (
        f"{escaped(member.id)}: {name}, since {time_text(member.joined_at)}, "
        f"gone in {duration_text(member.remaining)} without another heartbeat{metadata}"
    )
