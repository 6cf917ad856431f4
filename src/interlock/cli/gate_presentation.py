"""The status of a gate, as text and as JSON."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from interlock.cli.output import duration_text, escaped, time_text, titled_lines
from interlock.cli.terminal import table_text
from interlock.gate.status import GateSession, GateStatus


def gate_as_json(found: GateStatus) -> dict[str, Any]:
    return {
        "gate": found.gate,
        "state": found.state,
        "lock": found.lock,
        **found.run,
        "holder": found.holder,
        "waiting": found.waiting,
    }


def gate_as_text(found: GateStatus) -> str:
    run = found.run
    facts = {
        "state": found.state,
        "holder": found.holder and _session_text(found.holder),
        "waiting": ", ".join(map(_session_text, found.waiting)),
        "last run": f"{run['fence']}, by {run['replica']} on {run['host']}",
        "version": run["version"],
        "started": _time(run["started_at"]),
        "heartbeat": None if run["ended_at"] else _time(run["heartbeat_at"]),
        "step": run["step"],
        "ended": run["ended_at"] and f"{_time(run['ended_at'])}, {run['outcome']}",
        "error": run["error"],
    }
    return titled_lines(f"{found.gate} (lock {found.lock})", facts)


def steps_as_table(steps: Sequence[Mapping[str, Any]], width: int | None) -> str:
    return table_text(("BEGUN", "STEP", "STATE", "REPLICA"), list(map(_step, steps)), width)


def _step(step: Mapping[str, Any]) -> tuple[str, ...]:
    error = f": {step['error']}" if step["error"] else ""
    state = "done" if step["finished_at"] else f"HALF DONE{error}"
    return (time_text(step["started_at"]), escaped(step["step"]), escaped(state), escaped(step["replica"]))


def _session_text(session: GateSession) -> str:
    name = (session.name or "of another role").removeprefix("interlock gate ")
    return f"{name} (server process {session.pid})"


def _time(when: datetime) -> str:
    return f"{time_text(when)}, {duration_text(max(0.0, (datetime.now(UTC) - when).total_seconds()))} ago"
