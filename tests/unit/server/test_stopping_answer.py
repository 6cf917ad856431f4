"""The answer to requests that a stopping replica does not finish."""

import asyncio
import json
from typing import Any

from fastapi import FastAPI
from fastapi.responses import StreamingResponse


class Request:
    """A request that the server cancels while the application works on it."""

    def __init__(self, path: str) -> None:
        self._scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": []}
        self.sent: list[Any] = []
        self.in_progress = asyncio.Event()

    async def cancel(self, app: FastAPI) -> None:
        task = asyncio.create_task(app(self._scope, self._receive, self._send))
        await self.in_progress.wait()
        task.cancel("the server stops")
        await task

    async def _receive(self) -> Any:
        await asyncio.Event().wait()

    async def _send(self, message: Any) -> None:
        self.sent.append(message)


async def test_the_client_is_asked_to_repeat_the_request(app: FastAPI) -> None:
    request = Request("/slow")

    @app.get("/slow")
    async def slow() -> None:
        request.in_progress.set()
        await asyncio.Event().wait()

    await request.cancel(app)
    [start, body] = request.sent
    headers = dict(start["headers"])
    assert (start["status"], headers[b"retry-after"], headers[b"cache-control"]) == (503, b"1", b"no-store")
    assert (headers[b"content-type"], json.loads(body["body"])["code"]) == (b"application/problem+json", "stopping")


async def test_an_answer_that_has_begun_is_not_replaced(app: FastAPI) -> None:
    request = Request("/long")

    @app.get("/long")
    async def long() -> StreamingResponse:
        async def parts() -> Any:
            yield "a part"
            request.in_progress.set()
            await asyncio.Event().wait()

        return StreamingResponse(parts())

    await request.cancel(app)
    assert [message["type"] for message in request.sent] == ["http.response.start", "http.response.body"]
