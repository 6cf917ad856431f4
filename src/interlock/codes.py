"""The codes of all that goes wrong: one vocabulary on records, in the API's answers and in the JSON of commands.

Each error of `errors` has one; here are those that no error stands for. Orchestrations of users may have codes of their
own; on the records of instances and backups these would be `error`, as is any exception that is not Interlock's.
"""

from collections.abc import Mapping

from interlock import errors
from interlock.errors import DoNotRetry, InterlockError

OTHERS: Mapping[str, str] = {
    # Of orchestrations and their steps.
    "engine_failed": "the engine of orchestrations failed, not a step",
    "foreign_await": "an orchestration awaited something that is no step of its run",
    "interrupted": "an attempt at a step was interrupted; it does not count",
    "invalid_value": "an input or a result has not the type that the function names",
    "outcome_unknown": "the work did not come to its end, and no reason is known",
    "timeout_error": "a step did not end within its time",
    # Of instances.
    "not_absent": "something of the instance is still there after its removal",
    "not_orphaned": "the instance has a record, so it is no orphan",
    "not_running": "the instance did not come up",
    "not_stopped": "the instance did not go down",
    "vanished": "nothing of the instance is there any more, and it was not deleted",
    # Of requests.
    "idempotency_answer_not_kept": "the answer to the first request was too large to be kept",
    "idempotency_key_in_use": "a request under the key is still being carried out",
    "idempotency_key_malformed": "the header is not as it should be",
    "idempotency_key_missing": "the request needs the header",
    "idempotency_key_reused": "another request was sent under the key",
    "idempotency_request_too_large": "the request is too large for a key",
    "idempotency_unavailable": "whether the request was carried out before cannot be told now",
    "invalid_request": "fields of the request are not as they should be",
    "key_missing": "the request has no key to the API",
    "key_wrong": "the key to the API is not known, or was revoked",
    "starting": "the replica is not ready yet",
    "stopping": "the replica is about to stop; the request may have been carried out",
}
"""Each with its meaning."""

OF_ERRORS: Mapping[str, type[InterlockError]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, InterlockError) and kind is not DoNotRetry
}

CODES = frozenset([*OF_ERRORS, *OTHERS])


def known(code: str) -> str:
    """The code itself, or `error` for one that is not in the vocabulary."""
    return code if code in CODES else InterlockError.code
