"""An answer, and what of it can be kept and given again."""

import base64
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from interlock.coordination.primitives.once import LARGEST_RESULT

Headers = Sequence[tuple[str, str]]

LARGEST = 128 * 1024
"""Of a body that can be kept: what is recorded is longer by a third, and has headers."""

_NOT_AGAIN = frozenset(
    {
        # what belongs to one connection, or to one moment
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"),
        *("trailer", "transfer-encoding", "upgrade", "content-length", "date", "age", "server"),
        "set-cookie",  # a session of an earlier time
    }
)


class Answer(NamedTuple):
    """`body` is None if it was too large to be kept, or a stream."""

    status: int
    headers: Headers
    body: bytes | None


def packed(answer: Answer) -> dict[str, Any]:
    """As JSON can hold it. What does not fit after all is kept without its body."""
    headers = [[name, value] for name, value in answer.headers if name.lower() not in _NOT_AGAIN]
    body = None if answer.body is None else base64.b64encode(answer.body).decode()
    whole = {"status": answer.status, "headers": headers, "body": body}
    if len(json.dumps(whole)) > LARGEST_RESULT - 1024:
        return {"status": answer.status, "headers": [], "body": None}
    return whole


def unpacked(value: dict[str, Any]) -> Answer:
    body = None if value["body"] is None else base64.b64decode(value["body"])
    return Answer(value["status"], [(name, text) for name, text in value["headers"]], body)
