"""Connections of clients that do not say what they want."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from interlock.server import line
from interlock.server.listener import listen
from interlock.server.service import _Server

BEGUN = b"GET / HTTP/1.1\r\nHost: interlock.test\r\n"


class App:
    """Answers when it is told to."""

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


async def said(reader: asyncio.StreamReader) -> bytes:
    """All that comes before the other end hangs up."""
    try:
        async with asyncio.timeout(30):
            return await reader.read()
    except ConnectionResetError:  # it had not read everything
        return b""


@pytest.mark.parametrize("words", [b"", b"G", BEGUN], ids=["nothing", "a letter", "no end"])
async def test_whoever_does_not_say_what_it_wants_is_hung_up_on(words: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "HEAD_WITHIN", 0.1)
    async with serving(App()) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(words)
        assert await said(reader) == b""
        writer.close()


async def test_whoever_goes_on_one_letter_at_a_time_is_hung_up_on_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "HEAD_WITHIN", 0.1)
    async with serving(App()) as address:
        reader, writer = await asyncio.open_connection(*address)
        ended = asyncio.create_task(said(reader))
        writer.write(BEGUN + b"X-Slow: ")
        while not ended.done():
            writer.write(b"x")
            await asyncio.wait([ended], timeout=0.02)
        assert await ended == b""
        writer.close()


async def test_an_answer_may_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "HEAD_WITHIN", 0.1)
    app = App()
    async with serving(app) as address:
        whole = socket.create_connection(address)  # everything is said before anybody listens
        whole.sendall(BEGUN + b"Connection: close\r\n\r\n")
        reader, writer = await asyncio.open_connection(sock=whole)
        await app.asked.wait()
        idle, other = await asyncio.open_connection(*address)  # which is hung up on meanwhile, and it came later
        assert await said(idle) == b""
        app.answer.set()
        assert (await said(reader)).endswith(b"done\n")
        writer.close()
        other.close()


async def test_one_too_many_is_hung_up_on_and_the_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "most_connections", lambda: 2)
    app = App()
    app.answer.set()
    async with serving(app) as address:
        lines = [await asyncio.open_connection(*address) for _ in range(3)]
        assert await said(lines[2][0]) == b""
        for reader, writer in lines[:2]:
            writer.write(BEGUN + b"Connection: close\r\n\r\n")
            assert (await said(reader)).endswith(b"done\n")
        reader, writer = await asyncio.open_connection(*address)  # there is room again
        writer.write(BEGUN + b"Connection: close\r\n\r\n")
        assert (await said(reader)).endswith(b"done\n")
        for _, other in (*lines, (reader, writer)):
            other.close()


def test_half_of_the_files_are_left_for_everything_else() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 0 < line.most_connections() <= (soft // 2 if soft > 0 else 10_000)
