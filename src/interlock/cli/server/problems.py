"""Problem details (RFC 9457) of the control plane, as errors of this process."""

import json
from typing import Any

from interlock import errors
from interlock.cli.output import escaped
from interlock.codes import ERROR_CODES


def error_of(status: int, body: bytes, url: str) -> errors.InterlockError:
    """Returns the error for an answer that is not a result."""
    problem = _problem(body)
    if status == 401:
        return errors.KeyRefused(
            f"The control plane at {url} does not accept this key: set INTERLOCK_API_KEY to one that it knows; "
            "`interlock key create` makes one."
        )
    if problem is None:
        return errors.ServerUnreachable(
            f"The server at {url} (status {status}) is not Interlock's control plane: see INTERLOCK_SERVER."
        )
    error = errors.ServerRefused(problem_text(problem), code=str(problem.get("code", "error")))
    error.exit_status = _exit_status(status, error.code)
    return error


def problem_text(problem: dict[str, Any]) -> str:
    """The problem's detail, and the mistake in each field."""
    detail = str(problem.get("detail") or problem.get("title") or "The control plane gave no reason.")
    mistakes = problem.get("errors") or ()
    fields = "; ".join(f"{one['at']}: {one['message']}" for one in mistakes)
    return escaped(f"{detail} {fields}." if fields else detail)


def _problem(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found if isinstance(found, dict) and ("title" in found or "detail" in found) else None


def _exit_status(status: int, code: str) -> int:
    """The exit status of the server's error; for a code that is unknown here, it follows from the HTTP status."""
    if kind := ERROR_CODES.get(code):
        return kind.exit_status
    return errors.EX_DATAERR if status < 500 else errors.EX_UNAVAILABLE
