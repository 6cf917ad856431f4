"""The stream of a log: who reads may go, and the replica may stop, while nothing is written."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from interlock.errors import InstanceAbsent
from interlock.server.api import logs
from interlock.server.api.logs import LineStream


class Log:
    """Lines, and then silence; whether somebody still reads it."""

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


class Wire:
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


async def streaming(log: Log, wire: Wire, stopping: asyncio.Event) -> "asyncio.Task[None]":
    stream = LineStream(log.read(), stopping)
    await stream.begin()
    task = asyncio.create_task(stream({"type": "http"}, wire.receive, wire.send))
    await wire.got.wait()
    return task


async def test_it_ends_with_the_log() -> None:
    log, wire = Log("one", "two"), Wire()
    task = await streaming(log, wire, asyncio.Event())
    log.more.set()
    await task
    assert (wire.body, wire.sent[-1]) == (b"one\ntwo\n", {"type": "http.response.body", "body": b""})
    assert log.closed.is_set()


async def test_nobody_reads_on_when_the_client_has_gone() -> None:
    log, wire = Log("one"), Wire()
    task = await streaming(log, wire, asyncio.Event())
    wire.gone.set()
    await task
    assert log.closed.is_set()


async def test_it_ends_when_the_replica_stops() -> None:
    log, wire, stopping = Log("one"), Wire(), asyncio.Event()
    task = await streaming(log, wire, stopping)
    stopping.set()
    await task
    assert log.closed.is_set()
    assert wire.sent[-1]["body"] == b""


async def test_a_server_that_cancels_it_leaves_nobody_reading() -> None:
    log, wire = Log("one"), Wire()
    task = await streaming(log, wire, asyncio.Event())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log.closed.is_set()


async def test_a_log_that_is_silent_is_answered_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_SILENCE", 0)
    log, wire = Log(), Wire()
    stream = LineStream(log.read(), asyncio.Event())
    await stream.begin()
    task = asyncio.create_task(stream({"type": "http"}, wire.receive, wire.send))
    log.more.set()
    await task
    assert [message["type"] for message in wire.sent] == ["http.response.start", "http.response.body"]


async def test_where_there_is_no_log_that_is_told_before_the_answer_begins() -> None:
    async def read(*lines: str) -> AsyncIterator[str]:
        for line in lines:
            yield line
        raise InstanceAbsent("There is none.", id="a")

    with pytest.raises(InstanceAbsent):
        await LineStream(read(), asyncio.Event()).begin()


async def test_an_answer_that_breaks_off_is_not_ended_as_if_that_were_all() -> None:
    async def broken() -> AsyncIterator[str]:
        yield "one"
        raise OSError("the disk is gone")

    wire = Wire()
    stream = LineStream(broken(), asyncio.Event())
    await stream.begin()
    with pytest.raises(OSError, match="the disk is gone"):
        await stream({"type": "http"}, wire.receive, wire.send)
    assert wire.sent[-1]["body"] == b"one\n"
