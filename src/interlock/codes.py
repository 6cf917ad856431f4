"""The codes of all errors: one vocabulary for records, answers of the API and the JSON output of commands.

Each class in `errors` has a code. This module adds the codes that have no class. Users' orchestrations may have codes
of their own. The records of instances and backups show `error` instead of such a code, and instead of an exception that
is not Interlock's.
"""

from collections.abc import Mapping

from interlock import errors
from interlock.errors import DoNotRetry, InterlockError

OTHER_CODES: Mapping[str, str] = {
    # Codes of orchestrations and their steps.
    "engine_failed": "the engine that runs the orchestrations failed; no step failed",
    "foreign_await": "an orchestration awaited something that is not a step of its run",
    "interrupted": "an attempt at a step was interrupted; the retry policy does not count this attempt",
    "invalid_value": "an input or a result does not have the type that the function declares",
    "outcome_unknown": "the work did not complete, and the reason is unknown",
    "timeout_error": "a step did not end within its timeout",
    # Codes of instances.
    "not_absent": "parts of the instance still exist after its removal",
    "not_orphaned": "the instance has a record, so it is not an orphan",
    "not_running": "the instance did not start",
    "not_stopped": "the instance did not stop",
    "vanished": "nothing of the instance exists any more, although it was not deleted",
    # Codes of requests.
    "idempotency_answer_not_kept": "the answer to the first request under the key was too large to be kept",
    "idempotency_key_in_use": "a request under the key is still being carried out",
    "idempotency_key_malformed": "the Idempotency-Key header is malformed",
    "idempotency_key_missing": "the request needs an Idempotency-Key header",
    "idempotency_key_reused": "another request was sent under the key before",
    "idempotency_request_too_large": "the request is too large to be sent under a key",
    "idempotency_unavailable": "the server cannot find out now whether the request was carried out before",
    "invalid_request": "fields of the request are missing or wrong",
    "key_missing": "the request has no API key",
    "key_wrong": "the API key is unknown, or was revoked",
    "starting": "the replica is not ready yet",
    "stopping": "the replica is stopping; the request may have been carried out",
}
"""Each code with its meaning."""

ERROR_CODES: Mapping[str, type[InterlockError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, InterlockError) and kind is not DoNotRetry
}

CODES = frozenset([*ERROR_CODES, *OTHER_CODES])


def known_code(code: str) -> str:
    """Returns `code`, or `error` if the vocabulary does not contain it."""
    return code if code in CODES else InterlockError.code
