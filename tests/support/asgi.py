"""A client of an ASGI application that can be slow or disconnect, which HTTP libraries do not support."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from interlock.integrations.idempotency.application_run import App, Message


class Exchange:
    """One request, and the messages of its answer so far."""

    def __init__(self, app: App, task: "asyncio.Task[None] | None" = None) -> None:
        self.messages: list[Message] = []
        self.changed = asyncio.Event()
        self.gone = asyncio.Event()
        self._app = app
        self._incoming: asyncio.Queue[Message] = asyncio.Queue()
        self.task = task

    def begin(
        self,
        path: str = "/",
        body: bytes | None = b"",
        *,
        key: str | None = "k1",
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        extensions: Mapping[str, Any] | None = None,
    ) -> "Exchange":
        given = {"idempotency-key": key, **(headers or {})} if key is not None else dict(headers or {})
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path.partition("?")[0],
            "raw_path": path.partition("?")[0].encode(),
            "query_string": path.partition("?")[2].encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given.items()],
            "client": ("test", 1),
            "server": ("test", 80),
            "extensions": dict(extensions or {}),
        }
        if body is not None:
            self.say(body)
        self.task = asyncio.create_task(self._run(scope))
        return self

    async def _run(self, scope: dict[str, Any]) -> None:
        await self._app(scope, self._receive, self._send)

    def say(self, body: bytes, *, more: bool = False) -> None:
        self._incoming.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def leave(self) -> None:
        """The client disconnects; `receive` reports that from now on."""
        self.gone.set()

    async def _receive(self) -> Message:
        if self._incoming.empty():
            await self.gone.wait()
            return {"type": "http.disconnect"}
        return self._incoming.get_nowait()

    async def _send(self, message: Message) -> None:
        if self.gone.is_set():
            raise OSError("The client has gone.")
        self.messages.append(message)
        self.changed.set()

    async def answer(self) -> "Exchange":
        assert self.task is not None
        await self.task
        return self

    @property
    def is_complete(self) -> bool:
        return bool(self.messages) and not self.messages[-1].get("more_body", len(self.messages) == 1)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode().lower(): value.decode("latin-1") for name, value in self.messages[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.messages[1:])

    @property
    def problem(self) -> str:
        """The code of the problem."""
        assert self.headers["content-type"] == "application/problem+json"
        content = json.loads(self.body)
        assert content["status"] == self.status
        assert content["title"]
        assert content["detail"].endswith(".")
        code: str = content["code"]
        assert content["type"] == f"urn:interlock:problem:{code.replace('_', '-')}"
        return code

    @property
    def is_replayed(self) -> bool:
        return self.headers.get("idempotency-replayed") == "true"
