"""Limits on client connections: the timeout for a request's head, and the number of connections."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from interlock.server import http_protocol
from interlock.server.listener import listen
from interlock.server.service import _Server

BEGUN = b"GET / HTTP/1.1\r\nHost: interlock.test\r\n"


class App:
    """Answers when `answer` is set."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.set()
        await self.answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"done\n"})


@asynccontextmanager
async def serving(app: App) -> AsyncIterator[tuple[str, int]]:
    up = asyncio.Event()
    server = _Server(app)
    with listen("127.0.0.1", 0) as listener:
        task = asyncio.create_task(server.serve_on(listener, when_up=up.set))
        await up.wait()
        yield listener.getsockname()
        server.should_exit = True
        await task


async def everything_from(reader: asyncio.StreamReader) -> bytes:
    """Everything that is received until the server closes the connection."""
    try:
        async with asyncio.timeout(30):
            return await reader.read()
    except ConnectionResetError:  # the server had not read everything
        return b""


@pytest.mark.parametrize("words", [b"", b"G", BEGUN], ids=["nothing", "a letter", "no end"])
async def test_a_connection_without_a_complete_request_head_is_closed(
    words: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT", 0.1)
    async with serving(App()) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(words)
        assert await everything_from(reader) == b""
        writer.close()


async def test_a_request_head_sent_one_letter_at_a_time_does_not_extend_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT", 0.1)
    async with serving(App()) as address:
        reader, writer = await asyncio.open_connection(*address)
        ended = asyncio.create_task(everything_from(reader))
        writer.write(BEGUN + b"X-Slow: ")
        while not ended.done():
            writer.write(b"x")
            await asyncio.wait([ended], timeout=0.02)
        assert await ended == b""
        writer.close()


async def test_the_timeout_does_not_apply_to_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT", 0.1)
    app = App()
    async with serving(app) as address:
        whole = socket.create_connection(address)  # the whole request is sent before the server reads
        whole.sendall(BEGUN + b"Connection: close\r\n\r\n")
        reader, writer = await asyncio.open_connection(sock=whole)
        await app.asked.wait()
        idle, other = await asyncio.open_connection(*address)  # opened later, and closed meanwhile
        assert await everything_from(idle) == b""
        app.answer.set()
        assert (await everything_from(reader)).endswith(b"done\n")
        writer.close()
        other.close()


async def test_a_connection_over_the_limit_is_closed_and_the_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "most_connections", lambda: 2)
    app = App()
    app.answer.set()
    async with serving(app) as address:
        lines = [await asyncio.open_connection(*address) for _ in range(3)]
        assert await everything_from(lines[2][0]) == b""
        for reader, writer in lines[:2]:
            writer.write(BEGUN + b"Connection: close\r\n\r\n")
            assert (await everything_from(reader)).endswith(b"done\n")
        reader, writer = await asyncio.open_connection(*address)  # below the limit again
        writer.write(BEGUN + b"Connection: close\r\n\r\n")
        assert (await everything_from(reader)).endswith(b"done\n")
        for _, other in (*lines, (reader, writer)):
            other.close()


def test_half_of_the_open_files_are_left_for_everything_else() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 0 < http_protocol.most_connections() <= (soft // 2 if soft > 0 else 10_000)
