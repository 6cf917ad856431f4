"""A gate's status, for eyes and for programs."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from interlock.cli.facts import listed, moment, shown, spoken
from interlock.cli.table import fitting
from interlock.gate.status import GateSession, GateStatus


def as_facts(found: GateStatus) -> dict[str, Any]:
    return {
        "gate": found.gate,
        "state": found.state,
        "lock": found.lock,
        **found.run,
        "holder": found.holder,
        "waiting": found.waiting,
    }


def as_text(found: GateStatus) -> str:
    run = found.run
    facts = {
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
    return listed(f"{found.gate} (lock {found.lock})", facts)


def steps_as_table(steps: Sequence[Mapping[str, Any]], width: int | None) -> str:
    return fitting(("BEGUN", "STEP", "STATE", "REPLICA"), list(map(_step, steps)), width)


def _step(step: Mapping[str, Any]) -> tuple[str, ...]:
    error = f": {step['error']}" if step["error"] else ""
    state = "done" if step["finished_at"] else f"HALF DONE{error}"
    return (moment(step["started_at"]), shown(step["step"]), shown(state), shown(step["replica"]))


def _called(session: GateSession) -> str:
    name = (session.name or "of another role").removeprefix("interlock gate ")
    return f"{name} (server process {session.pid})"


def _time(when: datetime) -> str:
    return f"{moment(when)}, {spoken(max(0.0, (datetime.now(UTC) - when).total_seconds()))} ago"
