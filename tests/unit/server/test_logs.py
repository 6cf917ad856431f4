"""The stream of a log ends when the client disconnects or the replica stops, also while no line is written."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from interlock.errors import InstanceAbsent
from interlock.server.api import logs
from interlock.server.api.logs import LineStream


class Log:
    """Yields its lines and then waits; `closed` is set once it is no longer read."""

    def __init__(self, *lines: str) -> None:
        self._lines = lines
        self.more = asyncio.Event()
        self.closed = asyncio.Event()

    async def read(self) -> AsyncIterator[str]:
        try:
            for line in self._lines:
                yield line
            await self.more.wait()
        finally:
            self.closed.set()


class Client:
    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.gone = asyncio.Event()
        self.got = asyncio.Event()

    async def receive(self) -> Any:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        if message.get("body"):
            self.got.set()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


async def streaming(log: Log, client: Client, stopping: asyncio.Event) -> "asyncio.Task[None]":
    stream = LineStream(log.read(), stopping)
    await stream.begin()
    task = asyncio.create_task(stream({"type": "http"}, client.receive, client.send))
    await client.got.wait()
    return task


async def test_the_stream_ends_with_the_log() -> None:
    log, client = Log("one", "two"), Client()
    task = await streaming(log, client, asyncio.Event())
    log.more.set()
    await task
    assert (client.body, client.sent[-1]) == (b"one\ntwo\n", {"type": "http.response.body", "body": b""})
    assert log.closed.is_set()


async def test_reading_ends_when_the_client_disconnects() -> None:
    log, client = Log("one"), Client()
    task = await streaming(log, client, asyncio.Event())
    client.gone.set()
    await task
    assert log.closed.is_set()


async def test_the_stream_ends_when_the_replica_stops() -> None:
    log, client, stopping = Log("one"), Client(), asyncio.Event()
    task = await streaming(log, client, stopping)
    stopping.set()
    await task
    assert log.closed.is_set()
    assert client.sent[-1]["body"] == b""


async def test_reading_ends_when_the_server_cancels_the_answer() -> None:
    log, client = Log("one"), Client()
    task = await streaming(log, client, asyncio.Event())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log.closed.is_set()


async def test_the_answer_begins_although_no_line_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_FIRST_LINE_TIMEOUT", 0)
    log, client = Log(), Client()
    stream = LineStream(log.read(), asyncio.Event())
    await stream.begin()
    task = asyncio.create_task(stream({"type": "http"}, client.receive, client.send))
    log.more.set()
    await task
    assert [message["type"] for message in client.sent] == ["http.response.start", "http.response.body"]


async def test_a_driver_error_is_raised_before_the_answer_begins() -> None:
    async def read(*lines: str) -> AsyncIterator[str]:
        for line in lines:
            yield line
        raise InstanceAbsent("There is none.", id="a")

    with pytest.raises(InstanceAbsent):
        await LineStream(read(), asyncio.Event()).begin()


async def test_an_answer_that_fails_midway_is_not_completed() -> None:
    async def broken() -> AsyncIterator[str]:
        yield "one"
        raise OSError("the disk is gone")

    client = Client()
    stream = LineStream(broken(), asyncio.Event())
    await stream.begin()
    with pytest.raises(OSError, match="the disk is gone"):
        await stream({"type": "http"}, client.receive, client.send)
    assert client.sent[-1]["body"] == b"one\n"
