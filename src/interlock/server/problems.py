"""The one place that turns errors into answers: RFC 9457, ``application/problem+json``."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from interlock.errors import InterlockError, StoreError

_MEDIA_TYPE = "application/problem+json"


def answer_problems(app: FastAPI) -> None:
    """From here on, every error of `app` is answered as a problem."""
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(InterlockError, _ours)
    app.add_exception_handler(Exception, _bug)


def problem(status: int, detail: str | None = None, **more: Any) -> JSONResponse:
    """A problem that is fully described by its status and, where there is more to say, one sentence."""
    title = HTTPStatus(status).phrase
    said = {"detail": detail} if detail and detail != title else {}
    content = {"type": "about:blank", "title": title, "status": status, **said, **more}
    return JSONResponse(content, status, media_type=_MEDIA_TYPE)


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
    return problem(422, "The request is not as it should be.", errors=wrong)


async def _ours(request: Request, error: Exception) -> JSONResponse:
    return problem(503 if isinstance(error, StoreError) else 500, str(error))


async def _bug(request: Request, error: Exception) -> JSONResponse:
    """What went wrong is in the log; the answer does not tell strangers."""
    return problem(500)
