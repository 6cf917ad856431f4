"""An instance, as the control plane tells of it, in words. What others wrote is never let loose on a terminal."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from interlock.cli.facts import listed, moment, shown, spoken
from interlock.cli.table import fitting

Facts = Mapping[str, Any]
"""As the API has it."""

_COLUMNS = ("NAME", "STATE", "HEALTH", "ADDRESS", "DNS NAME", "VERSION", "DRIVER", "AGE")
_WORDS = {"come_up": "running", "go_down": "stopped", "vanish": "deleted", "fail": "failed"}
"""Events that are called differently by whoever is not the machine of their states."""
_ITSELF = "interlock"
"""The actor of everything that nobody asked for alone."""
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def name_of(instance: Facts) -> str:
    return shown(str(instance["name"]))


def address(instance: Facts) -> str:
    where = instance["connection"]
    if not where:
        return ""
    host = shown(str(where["host"]))
    return f"[{host}]:{where['port']}" if ":" in host else f"{host}:{where['port']}"


def as_table(instances: Sequence[Facts], now: datetime, width: int | None) -> str:
    return fitting(_COLUMNS, [_row(one, now) for one in instances], width)


def as_text(instance: Facts) -> str:
    where = instance["connection"]
    facts = {
        "state": standing(instance),
        "error": trouble(instance),
        "address": where and f"{address(instance)}, user {where['user']}, database {where['database']}",
        "tls": where and f"sslmode={where['sslmode']}",
        "dns name": instance["dns_name"],
        "driver": instance["driver"],
        "version": instance["version"],
        "storage": instance["storage_bytes"] and size(instance["storage_bytes"]),
        "parameters": _pairs(instance["parameters"]),
        "tags": _pairs(instance["tags"]),
        "worked on by": instance["working"] and instance["orchestration"],
        "created": moment(time_of(instance["created_at"])),
        "changed": moment(time_of(instance["updated_at"])),
        "deleted": instance["deleted_at"] and moment(time_of(instance["deleted_at"])),
        "id": instance["id"],
    }
    return listed(str(instance["name"]), facts)


def standing(instance: Facts) -> str:
    """Its state, and its health where it has one."""
    state, health = str(instance["state"]), str(instance["health"])
    return shown(state if health == "unknown" or state == "deleted" else f"{state}, {health}")


def trouble(instance: Facts) -> str:
    """What the last that was asked of it ended with; empty if that went well."""
    error = instance["error"]
    return shown(f"{error['message']} ({error['code']})") if error else ""


def outcome(instance: Facts) -> str:
    """What has come of a request, and what to do next."""
    name, state = name_of(instance), shown(str(instance["state"]))
    if instance["working"]:
        return f"{name} is {state}: `interlock instance wait {name}` tells when that is done."
    if state == "running" and not instance["error"]:
        return f"{name} is running at {address(instance)}: `interlock instance connect {name}` opens psql."
    why = trouble(instance)
    return f"{name} is {state}: {why}" if why else f"{name} is {state}."


def event(happening: Facts) -> str:
    kind = _WORDS.get(happening["kind"], str(happening["kind"]))
    actor = str(happening.get("actor") or _ITSELF)
    by = "" if actor == _ITSELF else f" by {actor}"
    detail = happening.get("detail")
    return shown(f"{kind}{by}: {detail}" if detail else f"{kind}{by}")


def size(count: float) -> str:
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count:.0f} {unit}" if count >= 100 or count == int(count) else f"{count:.1f} {unit}"


def time_of(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _row(instance: Facts, now: datetime) -> tuple[str, ...]:
    state = str(instance["state"]) + (" (error)" if instance["error"] else "")
    age = spoken((now - time_of(instance["created_at"])).total_seconds())
    health = "" if instance["health"] == "unknown" else instance["health"]
    cells = (instance["name"], state, health, address(instance), instance["dns_name"], instance["version"])
    return (*(shown(str(cell or "-")) for cell in (*cells, instance["driver"])), age)


def _pairs(given: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(given.items()))
