"""The description of errors in `/openapi.json`: all routes of the API answer errors in the same form."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from interlock.server.problems import MEDIA_TYPE

_PROBLEM: dict[str, Any] = {
    "type": "object",
    "title": "Problem",
    "description": "RFC 9457. Some problems have further fields.",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string", "description": "The name of this kind of problem."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "One sentence: the error, and what to do next."},
        "code": {"type": "string", "description": "The kind of problem, for programs."},
        "errors": {
            "type": "array",
            "description": "The fields of the request that are missing or wrong.",
            "items": {
                "type": "object",
                "properties": {"at": {"type": "string"}, "message": {"type": "string"}},
            },
        },
        "name": {"type": "string", "description": "The name that is taken or malformed."},
        "owner": {"type": ["string", "null"], "description": "The id of the instance that has the name."},
        "orchestration": {"type": "string", "description": "The orchestration that works on the instance."},
        "state": {"type": "string", "description": "The current state of an instance that does not allow the request."},
    },
    "examples": [
        {
            "type": "urn:interlock:problem:name-taken",
            "title": "Conflict",
            "status": 409,
            "detail": "The name 'orders' belongs to the instance orders (0b8e5f0c-7f4e-4a52-9d3e-2f8f3a6f1c55, "
            "running): choose another, or delete that one first.",
            "code": "name_taken",
            "name": "orders",
            "owner": "0b8e5f0c-7f4e-4a52-9d3e-2f8f3a6f1c55",
        }
    ],
}

_ALWAYS = {
    "401": "The request has no key, or the key is unknown or revoked.",
    "422": "The request is malformed, or asks for something impossible.",
    "503": "This replica is starting or stopping, or its database does not answer: send the request again in a moment.",
    "default": "Any other error; see its `code`, or its status if it has no code.",
}
_OF_ONE = {"404": "There is no record of this id or name."}
_OF_CHANGES = {"409": "A conflict, such as a name that is taken or an instance that is busy."}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "A string of your choice. The same request under the same key is carried out once; "
    "a repetition gets the same answer.",
}


def describe(app: FastAPI) -> None:
    """Add the problems to the OpenAPI description of `app`."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(title=app.title, version=app.version, routes=app.routes)
            _add_problems(found)
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign] # FastAPI documents this way


def _add_problems(found: dict[str, Any]) -> None:
    for path, methods in found["paths"].items():
        if path.startswith("/api/"):
            for method, route in methods.items():
                is_change = method != "get"
                problems = _ALWAYS | (_OF_ONE if "{" in path else {}) | (_OF_CHANGES if is_change else {})
                route["responses"] |= {status: _response(text) for status, text in problems.items()}
                if is_change:
                    route.setdefault("parameters", []).append(_IDEMPOTENCY_KEY)
    schemas = found["components"]["schemas"]
    for replaced in ("HTTPValidationError", "ValidationError"):
        schemas.pop(replaced, None)
    schemas["Problem"] = _PROBLEM


def _response(text: str) -> dict[str, Any]:
    return {"description": text, "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
