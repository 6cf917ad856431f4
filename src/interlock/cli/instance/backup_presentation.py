"""A backup in words. Texts of others never act on the terminal."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from interlock.cli.instance.presentation import size
from interlock.cli.output import escaped
from interlock.cli.record.kind import Facts, Kind, age_of, moments_of, trouble

_SHORT = 8
"""So much of an id is enough to name a backup by."""


def short(backup: Facts) -> str:
    return escaped(str(backup["id"])[:_SHORT])


def label(backup: Facts) -> str:
    return f"The backup {short(backup)} of {escaped(str(backup['instance_name']))}"


def outcome(backup: Facts) -> str:
    """The result of a request, and the next thing to do."""
    what = label(backup)
    state = escaped(str(backup["state"]))
    if backup["working"]:
        return f"{what} is {state}: `interlock instance backups` tells when that is done."
    if backup["error"]:
        return f"{what} is {state}: {trouble(backup)}"
    if state != "made":
        return f"{what} is {state}."
    checked = " and verified" if backup["verified_at"] else ""
    return f"{what} is made{checked}, {size(backup['size_bytes'])} at {escaped(str(backup['path']))}."


def facts_of(backup: Facts) -> Mapping[str, object]:
    return {
        "state": str(backup["state"]),
        "error": trouble(backup),
        "format": backup["format"],
        "path": backup["path"],
        "size": backup["size_bytes"] and size(backup["size_bytes"]),
        "version": backup["server_version"],
        **moments_of(backup),
    }


def _row(backup: Facts, now: datetime) -> Sequence[str]:
    state = str(backup["state"]) + (" (error)" if backup["error"] and backup["state"] != "failed" else "")
    room = "-" if backup["size_bytes"] is None else size(backup["size_bytes"])
    cells = (short(backup), backup["instance_name"], state, room, backup["format"], age_of(backup["created_at"], now))
    verified = age_of(backup["verified_at"], now) + " ago" if backup["verified_at"] else "-"
    return (*cells, verified, backup["server_version"])


BACKUPS = Kind(
    word="backup",
    argument="BACKUP",
    path="/backups",
    columns=("BACKUP", "INSTANCE", "STATE", "SIZE", "FORMAT", "AGE", "VERIFIED", "VERSION"),
    row=_row,
    facts=facts_of,
    label=label,
    standing=lambda backup: escaped(str(backup["state"])),
    outcome=outcome,
    follow_up=lambda backup: "`interlock instance backups` shows it",
    events={"finish": "made"},
)
