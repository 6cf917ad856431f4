"""What the control plane answers when it does not do what it was asked for (RFC 9457), as an error of this side."""

import json
from typing import Any

from interlock import errors
from interlock.cli.output import escaped
from interlock.codes import ERROR_CODES


def refusal(status: int, body: bytes, url: str) -> errors.InterlockError:
    problem = _problem(body)
    if status == 401:
        return errors.KeyRefused(
            f"The control plane at {url} does not take this key: set INTERLOCK_API_KEY to one that it knows; "
            "`interlock key create` makes one."
        )
    if problem is None:
        return errors.ServerUnreachable(
            f"What answers at {url} (status {status}) is not Interlock's control plane: see INTERLOCK_SERVER."
        )
    error = errors.ServerRefused(sentence(problem), code=str(problem.get("code", "error")))
    error.exit_status = _exit_status(status, error.code)
    return error


def sentence(problem: dict[str, Any]) -> str:
    """What it says, with what is wrong with each field."""
    said = str(problem.get("detail") or problem.get("title") or "The control plane gave no reason.")
    wrong = problem.get("errors") or ()
    fields = "; ".join(f"{one['at']}: {one['message']}" for one in wrong)
    return escaped(f"{said} {fields}." if fields else said)


def _problem(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found if isinstance(found, dict) and ("title" in found or "detail" in found) else None


def _exit_status(status: int, code: str) -> int:
    """That of the error which the server met; of one that is unknown here, what its status says."""
    if kind := ERROR_CODES.get(code):
        return kind.exit_status
    return errors.EX_DATAERR if status < 500 else errors.EX_UNAVAILABLE
