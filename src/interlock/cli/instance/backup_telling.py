"""A backup, as the control plane tells of it, in words. What others wrote is never let loose on a terminal."""

from collections.abc import Sequence
from datetime import datetime

from interlock.cli.facts import shown, spoken
from interlock.cli.instance.telling import size
from interlock.cli.record.kind import Facts, Kind, time_of, trouble
from interlock.cli.table import fitting

_COLUMNS = ("BACKUP", "INSTANCE", "STATE", "SIZE", "FORMAT", "AGE", "VERIFIED", "VERSION")
_SHORT = 8
"""So much of an id is enough to name a backup by."""


def short(backup: Facts) -> str:
    return shown(str(backup["id"])[:_SHORT])


def as_table(backups: Sequence[Facts], now: datetime, width: int | None) -> str:
    return fitting(_COLUMNS, [_row(one, now) for one in backups], width)


def label(backup: Facts) -> str:
    return f"The backup {short(backup)} of {shown(str(backup['instance_name']))}"


def outcome(backup: Facts) -> str:
    """What has come of a request, and what to do next."""
    what = label(backup)
    state = shown(str(backup["state"]))
    if backup["working"]:
        return f"{what} is {state}: `interlock instance backups` tells when that is done."
    if backup["error"]:
        return f"{what} is {state}: {trouble(backup)}"
    if state != "made":
        return f"{what} is {state}."
    checked = " and verified" if backup["verified_at"] else ""
    return f"{what} is made{checked}, {size(backup['size_bytes'])} at {shown(str(backup['path']))}."


def _row(backup: Facts, now: datetime) -> tuple[str, ...]:
    state = str(backup["state"]) + (" (error)" if backup["error"] and backup["state"] != "failed" else "")
    room = "-" if backup["size_bytes"] is None else size(backup["size_bytes"])
    cells = (short(backup), backup["instance_name"], state, room, backup["format"], _age(backup["created_at"], now))
    verified = _age(backup["verified_at"], now) + " ago" if backup["verified_at"] else "-"
    return tuple(shown(str(cell)) for cell in (*cells, verified, backup["server_version"] or "-"))


def _age(moment: str, now: datetime) -> str:
    return spoken((now - time_of(moment)).total_seconds())


BACKUPS = Kind(
    path="/backups",
    label=label,
    standing=lambda backup: shown(str(backup["state"])),
    outcome=outcome,
    follow_up=lambda backup: "`interlock instance backups` shows it",
    events={"finish": "made"},
)
