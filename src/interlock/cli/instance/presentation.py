"""Instances and backups as text. Text of unknown origin is escaped before it reaches the terminal."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from interlock.cli.output import escaped
from interlock.cli.record.kind import Facts, Kind, age_of, common_facts, error_text

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_SHORT_ID = 8
"""The number of characters of a backup's id that are enough to name the backup."""


def name_of(instance: Facts) -> str:
    return escaped(str(instance["name"]))


def address(instance: Facts) -> str:
    where = instance["connection"]
    if not where:
        return ""
    host = escaped(str(where["host"]))
    return f"[{host}]:{where['port']}" if ":" in host else f"{host}:{where['port']}"


def status(instance: Facts) -> str:
    """Returns the instance's state, and its health if the health is known."""
    state, health = str(instance["state"]), str(instance["health"])
    return escaped(state if health == "unknown" or state == "deleted" else f"{state}, {health}")


def outcome(instance: Facts) -> str:
    """Returns the result of a request on an instance, and the next step."""
    name, state = name_of(instance), escaped(str(instance["state"]))
    if instance["working"]:
        return f"{name} is {state}: `interlock instance wait {name}` waits until the work is done."
    if state == "running" and not instance["error"]:
        return f"{name} is running at {address(instance)}: `interlock instance connect {name}` opens psql."
    why = error_text(instance)
    return f"{name} is {state}: {why}" if why else f"{name} is {state}."


def size(count: float) -> str:
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count:.0f} {unit}" if count >= 100 or count == int(count) else f"{count:.1f} {unit}"


def _instance_facts(instance: Facts) -> Mapping[str, object]:
    where = instance["connection"]
    return {
        "state": status(instance),
        "error": error_text(instance),
        "address": where and f"{address(instance)}, user {where['user']}, database {where['database']}",
        "tls": where and f"sslmode={where['sslmode']}",
        "dns name": instance["dns_name"],
        "driver": instance["driver"],
        "version": instance["version"],
        "storage": instance["storage_bytes"] and size(instance["storage_bytes"]),
        "parameters": _pairs(instance["parameters"]),
        "tags": _pairs(instance["tags"]),
        **common_facts(instance),
    }


def _instance_row(instance: Facts, now: datetime) -> Sequence[str]:
    state = str(instance["state"]) + (" (error)" if instance["error"] else "")
    health = "" if instance["health"] == "unknown" else instance["health"]
    cells = (instance["name"], state, health, address(instance), instance["dns_name"], instance["version"])
    return (*cells, instance["driver"], age_of(instance["created_at"], now))


def _pairs(given: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(given.items()))


def _backup_label(backup: Facts) -> str:
    return f"The backup {_short_id(backup)} of {escaped(str(backup['instance_name']))}"


def _short_id(backup: Facts) -> str:
    return escaped(str(backup["id"])[:_SHORT_ID])


def backup_outcome(backup: Facts) -> str:
    """Returns the result of a request on a backup, and the next step."""
    label = _backup_label(backup)
    state = escaped(str(backup["state"]))
    if backup["working"]:
        return f"{label} is {state}: `interlock instance backups` shows when the work is done."
    if backup["error"]:
        return f"{label} is {state}: {error_text(backup)}"
    if state != "made":
        return f"{label} is {state}."
    verified = " and verified" if backup["verified_at"] else ""
    return f"{label} is made{verified}, {size(backup['size_bytes'])} at {escaped(str(backup['path']))}."


def _backup_facts(backup: Facts) -> Mapping[str, object]:
    return {
        "state": str(backup["state"]),
        "error": error_text(backup),
        "format": backup["format"],
        "path": backup["path"],
        "size": backup["size_bytes"] and size(backup["size_bytes"]),
        "version": backup["server_version"],
        **common_facts(backup),
    }


def _backup_row(backup: Facts, now: datetime) -> Sequence[str]:
    state = str(backup["state"]) + (" (error)" if backup["error"] and backup["state"] != "failed" else "")
    occupied = "-" if backup["size_bytes"] is None else size(backup["size_bytes"])
    age = age_of(backup["created_at"], now)
    cells = (_short_id(backup), backup["instance_name"], state, occupied, backup["format"], age)
    verified = age_of(backup["verified_at"], now) + " ago" if backup["verified_at"] else "-"
    return (*cells, verified, backup["server_version"])


INSTANCES = Kind(
    word="instance",
    path="/instances",
    columns=("NAME", "STATE", "HEALTH", "ADDRESS", "DNS NAME", "VERSION", "DRIVER", "AGE"),
    row=_instance_row,
    facts=_instance_facts,
    label=name_of,
    status=status,
    outcome=outcome,
    follow_up=lambda instance: f"`interlock instance wait {name_of(instance)}` waits for it",
    cancel_command=lambda instance: f"interlock instance cancel {name_of(instance)}",
    events={"come_up": "running", "go_down": "stopped"},
)

BACKUPS = Kind(
    word="backup",
    argument="BACKUP",
    path="/backups",
    columns=("BACKUP", "INSTANCE", "STATE", "SIZE", "FORMAT", "AGE", "VERIFIED", "VERSION"),
    row=_backup_row,
    facts=_backup_facts,
    label=_backup_label,
    status=lambda backup: escaped(str(backup["state"])),
    outcome=backup_outcome,
    follow_up=lambda backup: "`interlock instance backups` shows it",
    events={"finish": "made"},
)
