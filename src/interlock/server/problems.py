"""The one place that turns errors into HTTP answers: RFC 9457, ``application/problem+json``."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from interlock.codes import CODES
from interlock.errors import InterlockError
from interlock.server.http_statuses import facts_of, status_of

MEDIA_TYPE = "application/problem+json"
_RETRY_AFTER = {503: {"Retry-After": "1"}}


def answer_problems(app: FastAPI) -> None:
    """Install the handlers that answer every error of `app` with a problem."""
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(InterlockError, _interlock_error)
    app.add_exception_handler(Exception, _unexpected_error)


def problem(status: int, detail: str | None = None, *, code: str | None = None, **more: Any) -> JSONResponse:
    """Builds a problem from a status and, optionally, a sentence. With `code` the problem has a type of its own."""
    return _answer(_described(status, detail, code, **more))


def problem_of(error: InterlockError) -> dict[str, Any]:
    """Returns the problem that describes the error, as data for an answer."""
    return _described(status_of(error), str(error), error.code, **facts_of(error))


def answer_to(error: InterlockError) -> JSONResponse:
    return _answer(problem_of(error))


def _described(status: int, detail: str | None, code: str | None, **more: Any) -> dict[str, Any]:
    assert code is None or code in CODES, code
    title = HTTPStatus(status).phrase
    kind = f"urn:interlock:problem:{code.replace('_', '-')}" if code else "about:blank"
    details = {"detail": detail} if detail and detail != title else {}
    codes = {"code": code} if code else {}
    return {"type": kind, "title": title, "status": status, **details, **codes, **more}


def _answer(content: dict[str, Any]) -> JSONResponse:
    status = content["status"]
    return JSONResponse(content, status, media_type=MEDIA_TYPE, headers=_RETRY_AFTER.get(status))


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    is_unknown_path = error.status_code == 404 and error.detail == HTTPStatus.NOT_FOUND.phrase
    detail = (
        f"There is nothing at {request.url.path}: see /openapi.json for the paths of the API."
        if is_unknown_path
        else error.detail
    )
    answer = problem(error.status_code, detail)
    answer.headers.update(error.headers or {})
    return answer


async def _invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # The field and the rule that it breaks, never the value: it may be a secret.
    errors = [{"at": ".".join(map(str, one["loc"])), "message": one["msg"]} for one in error.errors()]
    return problem(422, "Some fields of the request are missing or wrong.", code="invalid_request", errors=errors)


async def _interlock_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, InterlockError)
    return answer_to(error)


async def _unexpected_error(request: Request, error: Exception) -> JSONResponse:
    """The exception is in the log. The answer does not contain it, because any client may read the answer."""
    return problem(500)
