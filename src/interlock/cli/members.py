"""``interlock members``: who is alive."""

import json
from typing import TYPE_CHECKING, Any

import click

from interlock.cli.facts import json_option, moment, shown, spoken, tell
from interlock.cli.settings import database_options, run
from interlock.cli.under_lease import opened

if TYPE_CHECKING:
    from interlock.coordination.primitives.membership import Member
    from interlock.coordination.root import AsyncInterlock


@click.command()
@click.argument("group")
@json_option
@database_options
def members(group: str, as_json: bool, **flags: Any) -> None:
    """Show who is in GROUP now: which process each is, since when, and what it says of itself."""
    locks, _ = opened(flags)
    found = run(_read(locks, group))
    tell(found, "\n".join(map(_line, found)) or "Nobody is in that group.", as_json=as_json)


async def _read(locks: "AsyncInterlock", group: str) -> "list[Member]":
    try:
        return await locks.members(group)
    finally:
        await locks.close()


def _line(member: "Member") -> str:
    process = f"process {member.pid}" if member.pid is not None else None
    host = f"on {shown(member.host)}" if member.host else None
    place = " ".join(filter(None, (process, host)))
    says = "" if member.metadata is None else f", {shown(json.dumps(member.metadata, ensure_ascii=False))}"
    who = shown(member.holder or "somebody without a name") + (f" ({place})" if place else "")
    return (
        f"{shown(member.id)}: {who}, since {moment(member.joined_at)}, "
        f"gone in {spoken(member.remaining)} if it is not heard of{says}"
    )
