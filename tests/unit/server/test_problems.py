"""Every error is answered as a problem, in one form."""

import httpx
import pytest
from fastapi import FastAPI

from interlock import errors


def add_failing(app: FastAPI, error: Exception) -> None:
    @app.get("/fail/{number}")
    async def fail(number: int) -> None:
        raise error


async def problem(client: httpx.AsyncClient, path: str, status: int) -> dict[str, object]:
    answer = await client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    body: dict[str, object] = answer.json()
    assert (body["type"], body["status"]) == ("about:blank", status)
    return body


@pytest.mark.parametrize("path", ["/nothing", "/static/nothing.css", "/docs", "/redoc"])
async def test_a_path_that_is_not_there(client: httpx.AsyncClient, path: str) -> None:
    body = await problem(client, path, 404)
    assert (body["title"], body["detail"]) == ("Not Found", f"There is nothing at {path}.")


async def test_a_method_that_is_not_allowed_says_which_is(client: httpx.AsyncClient) -> None:
    answer = await client.post("/health/live")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET")
    assert answer.json() == {"type": "about:blank", "title": "Method Not Allowed", "status": 405}


async def test_a_malformed_request_says_where_and_does_not_repeat_what_was_sent(
    app: FastAPI, client: httpx.AsyncClient
) -> None:
    add_failing(app, ValueError())
    body = await problem(client, "/fail/secret", 422)
    assert body["errors"] == [{"at": "path.number", "message": body["errors"][0]["message"]}]  # type: ignore[index]
    assert "secret" not in str(body)


@pytest.mark.parametrize(("error", "status"), [(errors.ConnectionLost, 503), (errors.SchemaMissing, 500)])
async def test_our_own_errors_say_what_to_do(
    app: FastAPI, client: httpx.AsyncClient, error: type[errors.InterlockError], status: int
) -> None:
    add_failing(app, error("Do this."))
    assert (await problem(client, "/fail/1", status))["detail"] == "Do this."


async def test_a_bug_is_not_told_to_strangers(app: FastAPI, client: httpx.AsyncClient) -> None:
    add_failing(app, ZeroDivisionError("secret"))
    body = await problem(client, "/fail/1", 500)
    assert body == {"type": "about:blank", "title": "Internal Server Error", "status": 500}
