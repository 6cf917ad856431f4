"""Turns the control plane's problem details (RFC 9457) into errors of this process."""

import json
from typing import Any

from interlock import errors
from interlock.cli.output import escaped
from interlock.codes import ERROR_CODES


def error_of(status: int, body: bytes, url: str) -> errors.InterlockError:
    """Returns the error for an answer of the server that is not a result."""
    problem = _problem(body)
    if status == 401:
        return errors.KeyRefused(
            f"The control plane at {url} does not accept this key: make a key with `interlock key create`, and set "
            "INTERLOCK_API_KEY to it."
        )
    if problem is None:
        return errors.ServerUnreachable(
            f"The server at {url} (status {status}) is not Interlock's control plane: correct INTERLOCK_SERVER."
        )
    error = errors.ServerRefused(problem_text(problem), code=str(problem.get("code", "error")))
    error.exit_status = _exit_status(status, error.code)
    return error


def problem_text(problem: dict[str, Any]) -> str:
    """Returns the problem's detail, and the mistake in each field of the request."""
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
    """Returns the exit status for the error's code; if this release does not know the code, for the HTTP status."""
    if kind := ERROR_CODES.get(code):
        return kind.exit_status
    return errors.EX_DATAERR if status < 500 else errors.EX_UNAVAILABLE
