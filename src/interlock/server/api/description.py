"""What `/openapi.json` says of errors: every route of the API answers them in one form."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from interlock.server.problems import MEDIA_TYPE

_PROBLEM: dict[str, Any] = {
    "type": "object",
    "title": "Problem",
    "description": "RFC 9457. What else is known of it is in fields of its own.",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string", "description": "A name for this kind of problem."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened, and what to do next."},
        "code": {"type": "string", "description": "The kind of problem, for programs."},
        "errors": {
            "type": "array",
            "description": "Where the request is not as it should be.",
            "items": {
                "type": "object",
                "properties": {"at": {"type": "string"}, "message": {"type": "string"}},
            },
        },
        "name": {"type": "string", "description": "Of a name that is taken or malformed: which one."},
        "owner": {"type": ["string", "null"], "description": "Of a name that is taken: the instance that has it."},
        "orchestration": {"type": "string", "description": "Of an instance that is busy: what works on it."},
        "state": {"type": "string", "description": "Of what cannot be done now: where the instance stands."},
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
    "401": "There is no key in the request, or it is not known, or was revoked.",
    "422": "What was asked for cannot be.",
    "503": "This replica is starting or stopping, or its database does not answer: ask again in a moment.",
    "default": "Anything else: `code`, or the status, tells what it is.",
}
_OF_ONE = {"404": "There is no such thing."}
_CHANGING = {"409": "Not now, or not beside something else: a name is taken, an instance is busy."}
_REPEATING = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "Yours to choose. The same request under the same key is carried out once, and answered the same.",
}


def describe(app: FastAPI) -> None:
    """From here on the description of `app` has the problems in it."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(title=app.title, version=app.version, routes=app.routes)
            _add_problems(found)
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign] # as FastAPI wants it done


def _add_problems(found: dict[str, Any]) -> None:
    for path, methods in found["paths"].items():
        if path.startswith("/api/"):
            for method, route in methods.items():
                changing = method != "get"
                told = _ALWAYS | (_OF_ONE if "{" in path else {}) | (_CHANGING if changing else {})
                route["responses"] |= {status: _response(said) for status, said in told.items()}
                if changing:
                    route.setdefault("parameters", []).append(_REPEATING)
    schemas = found["components"]["schemas"]
    for replaced in ("HTTPValidationError", "ValidationError"):
        schemas.pop(replaced, None)
    schemas["Problem"] = _PROBLEM


def _response(said: str) -> dict[str, Any]:
    return {"description": said, "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
