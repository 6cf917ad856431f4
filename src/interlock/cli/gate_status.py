"""A gate's status, for eyes and for programs."""

from datetime import UTC, datetime
from typing import Any

from interlock.cli.facts import plain, shown
from interlock.gate.status import GateStatus, Sitting


def as_facts(found: GateStatus) -> dict[str, Any]:
    """For JSON: times as ISO 8601 has them."""
    facts = {
        "gate": found.gate,
        "state": found.state,
        "lock": list(found.lock),
        **found.run,
        "holder": found.holder and vars(found.holder),
        "waiting": [vars(sitting) for sitting in found.waiting],
    }
    return {name: plain(value) for name, value in facts.items()}


def as_text(found: GateStatus) -> str:
    run = found.run
    facts = {
        "gate": f"{found.gate} (lock {found.lock})",
        "state": found.state,
        "holder": found.holder and _called(found.holder),
        "waiting": ", ".join(map(_called, found.waiting)),
        "last run": f"{run['fence']}, by {run['replica']} on {run['host']}",
        "version": run["version"],
        "started": _time(run["started_at"]),
        "heartbeat": None if run["ended_at"] else _time(run["heartbeat_at"]),
        "step": run["step"],
        "ended": run["ended_at"] and f"{_time(run['ended_at'])}, {run['outcome']}",
        "error": run["error"],
    }
    return "\n".join(f"{name + ':':<11}{shown(str(value))}" for name, value in facts.items() if value not in (None, ""))


def _called(sitting: Sitting) -> str:
    name = (sitting.name or "of another role").removeprefix("interlock gate ")
    return f"{name} (server process {sitting.pid})"


def _time(moment: datetime) -> str:
    seconds = max(0, int((datetime.now(UTC) - moment).total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    ago = f"{days} d" if days else f"{hours} h" if hours else f"{minutes} min" if minutes else f"{seconds} s"
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}, {ago} ago"
