"""The problems that a client gets instead of an answer: RFC 9457, ``application/problem+json``."""

import json
from http import HTTPStatus

from interlock.integrations.idempotency.answer import Answer

_RETRY_AFTER = ("Retry-After", "1")


def problem(status: int, detail: str, *headers: tuple[str, str], code: str) -> Answer:
    content = {
        "type": f"urn:interlock:problem:{code.replace('_', '-')}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    return Answer(
        status,
        [("Content-Type", "application/problem+json"), ("Cache-Control", "no-store"), *headers],
        json.dumps(content).encode(),
    )


def key_missing() -> Answer:
    return problem(
        400,
        "This request needs an Idempotency-Key header: send a new key with each new request, "
        "and the same key when you repeat a request.",
        code="idempotency_key_missing",
    )


def key_malformed(detail: str) -> Answer:
    return problem(400, detail, code="idempotency_key_malformed")


def key_reused() -> Answer:
    return problem(
        422,
        "Another request was sent under this Idempotency-Key before: use a new key for a new request.",
        code="idempotency_key_reused",
    )


def under_way() -> Answer:
    return problem(
        409,
        "A request under this Idempotency-Key is still being carried out: send this request again a little later.",
        _RETRY_AFTER,
        code="idempotency_key_in_use",
    )


def not_kept(status: int) -> Answer:
    return problem(
        409,
        f"This request was carried out before and answered with {status}. That answer was too large to be kept, so it "
        "cannot be sent again. This time nothing was done: look at the result of the first request.",
        code="idempotency_answer_not_kept",
    )


def too_large(most: int) -> Answer:
    return problem(
        413,
        f"A request under an Idempotency-Key may have {most} bytes at most: send a smaller one.",
        code="idempotency_request_too_large",
    )


def unavailable() -> Answer:
    return problem(
        503,
        "The server cannot find out now whether this request was carried out before. So it did not carry out the "
        "request, or not completely: send the same request again, under the same key.",
        _RETRY_AFTER,
        code="idempotency_unavailable",
    )
