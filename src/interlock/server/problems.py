"""The one place that turns errors into answers: RFC 9457, ``application/problem+json``."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from interlock.codes import CODES
from interlock.errors import InterlockError
from interlock.server.statuses import facts_of, status_of

MEDIA_TYPE = "application/problem+json"
_RETRY_AFTER = {503: {"Retry-After": "1"}}


def answer_problems(app: FastAPI) -> None:
    """From here on, every error of `app` is answered as a problem."""
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(InterlockError, _ours)
    app.add_exception_handler(Exception, _bug)


def problem(status: int, detail: str | None = None, *, code: str | None = None, **more: Any) -> JSONResponse:
    """Fully described by its status and, where there is more to say, one sentence; or of a kind of its own, `code`."""
    return _answer(_described(status, detail, code, **more))


def problem_of(error: InterlockError) -> dict[str, Any]:
    """What is said of one of our errors, as a part of an answer."""
    return _described(status_of(error), str(error), error.code, **facts_of(error))


def answer_to(error: InterlockError) -> JSONResponse:
    return _answer(problem_of(error))


def _described(status: int, detail: str | None, code: str | None, **more: Any) -> dict[str, Any]:
    assert code is None or code in CODES, code
    title = HTTPStatus(status).phrase
    kind = f"urn:interlock:problem:{code.replace('_', '-')}" if code else "about:blank"
    said = {"detail": detail} if detail and detail != title else {}
    coded = {"code": code} if code else {}
    return {"type": kind, "title": title, "status": status, **said, **coded, **more}


def _answer(content: dict[str, Any]) -> JSONResponse:
    status = content["status"]
    return JSONResponse(content, status, media_type=MEDIA_TYPE, headers=_RETRY_AFTER.get(status))


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    is_routers_own = error.detail == HTTPStatus(error.status_code).phrase
    detail = f"There is nothing at {request.url.path}." if error.status_code == 404 and is_routers_own else error.detail
    answer = problem(error.status_code, detail)
    answer.headers.update(error.headers or {})
    return answer


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    # Where and what, never the value that was sent: it may be a secret.
    wrong = [{"at": ".".join(map(str, one["loc"])), "message": one["msg"]} for one in error.errors()]
    return problem(422, "The request is not as it should be.", code="invalid_request", errors=wrong)


async def _ours(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, InterlockError)
    return answer_to(error)


async def _bug(request: Request, error: Exception) -> JSONResponse:
    """What went wrong is in the log; the answer does not tell strangers."""
    return problem(500)
