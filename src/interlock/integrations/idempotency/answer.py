"""The answer to a request, and the form in which a record keeps the answer for repeated requests."""

import base64
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from interlock.coordination.primitives.once import LARGEST_RESULT

Headers = Sequence[tuple[str, str]]

LARGEST = 128 * 1024
"""Bytes of the largest body that is kept. The record of such a body is longer by a third, and also has the headers."""

_NOT_RECORDED = frozenset(
    {
        # headers that belong to one connection or to one moment
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"),
        *("trailer", "transfer-encoding", "upgrade", "content-length", "date", "age", "server"),
        "set-cookie",  # it may name an older session
    }
)


class Answer(NamedTuple):
    """`body` is None if the body was too large to be kept, or was streamed."""

    status: int
    headers: Headers
    body: bytes | None


def packed(answer: Answer) -> dict[str, Any]:
    """Returns the answer as JSON data. An answer that is too large for a record is packed without headers and body."""
    headers = [[name, value] for name, value in answer.headers if name.lower() not in _NOT_RECORDED]
    body = None if answer.body is None else base64.b64encode(answer.body).decode()
    whole = {"status": answer.status, "headers": headers, "body": body}
    if len(json.dumps(whole)) > LARGEST_RESULT - 1024:
        return {"status": answer.status, "headers": [], "body": None}
    return whole


def unpacked(value: dict[str, Any]) -> Answer:
    body = None if value["body"] is None else base64.b64decode(value["body"])
    return Answer(value["status"], [(name, text) for name, text in value["headers"]], body)
