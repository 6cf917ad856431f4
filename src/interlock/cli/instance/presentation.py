"""An instance in words. Texts of others never act on the terminal."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from interlock.cli.output import escaped
from interlock.cli.record.kind import Facts, Kind, age_of, moments_of, trouble

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def name_of(instance: Facts) -> str:
    return escaped(str(instance["name"]))


def address(instance: Facts) -> str:
    where = instance["connection"]
    if not where:
        return ""
    host = escaped(str(where["host"]))
    return f"[{host}]:{where['port']}" if ":" in host else f"{host}:{where['port']}"


def facts_of(instance: Facts) -> Mapping[str, object]:
    where = instance["connection"]
    return {
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
        **moments_of(instance),
    }


def standing(instance: Facts) -> str:
    """Its state, and its health where it has one."""
    state, health = str(instance["state"]), str(instance["health"])
    return escaped(state if health == "unknown" or state == "deleted" else f"{state}, {health}")


def outcome(instance: Facts) -> str:
    """What has come of a request, and what to do next."""
    name, state = name_of(instance), escaped(str(instance["state"]))
    if instance["working"]:
        return f"{name} is {state}: `interlock instance wait {name}` tells when that is done."
    if state == "running" and not instance["error"]:
        return f"{name} is running at {address(instance)}: `interlock instance connect {name}` opens psql."
    why = trouble(instance)
    return f"{name} is {state}: {why}" if why else f"{name} is {state}."


def size(count: float) -> str:
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count:.0f} {unit}" if count >= 100 or count == int(count) else f"{count:.1f} {unit}"


def _row(instance: Facts, now: datetime) -> Sequence[str]:
    state = str(instance["state"]) + (" (error)" if instance["error"] else "")
    health = "" if instance["health"] == "unknown" else instance["health"]
    cells = (instance["name"], state, health, address(instance), instance["dns_name"], instance["version"])
    return (*cells, instance["driver"], age_of(instance["created_at"], now))


def _pairs(given: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(given.items()))


INSTANCES = Kind(
    word="instance",
    path="/instances",
    columns=("NAME", "STATE", "HEALTH", "ADDRESS", "DNS NAME", "VERSION", "DRIVER", "AGE"),
    row=_row,
    facts=facts_of,
    label=name_of,
    standing=standing,
    outcome=outcome,
    follow_up=lambda instance: f"`interlock instance wait {name_of(instance)}` waits for it",
    cancel_command=lambda instance: f"interlock instance cancel {name_of(instance)}",
    events={"come_up": "running", "go_down": "stopped"},
)
