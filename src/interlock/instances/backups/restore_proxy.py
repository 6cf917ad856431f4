"""A proxy between pg_restore and the instance's server, so that a restore commits once, and only with a permission.

Permissions: pg_restore connects to a Unix socket in a directory that only this process's user can enter. The proxy
forwards its messages to the server over TLS. The restore is one transaction. The proxy holds back the COMMIT, queries
the server for the transaction's number, and passes the number to `permit`, which records it; only the newest attempt
can do so. Then it forwards the COMMIT.

Crashes: a crash before the COMMIT leaves nothing, because the server rolls back. A crash after the COMMIT leaves the
recorded number, by which the server reports whether the transaction was committed. The next attempt first ends the
sessions of earlier attempts, and then queries the server for the result of the transaction. An attempt that was stopped
and continues later is not permitted to commit.
"""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from interlock.errors import BackupFailed, DatabaseUnreachable
from interlock.instances.drivers.port import Endpoint
from interlock.tls.sslmode import sslmode

Permit = Callable[[str], Awaitable[None]]
"""Receives the number of the transaction. Raises if the transaction must not commit."""

PORT = 5432
"""A part of the socket's name. No port is opened."""
_CONNECT_WITHIN = 30.0
_AT_ONCE = 2**20
_CUT = (OSError, EOFError)


class _Message(NamedTuple):
    kind: bytes
    body: bytes

    @property
    def packed(self) -> bytes:
        return self.kind + struct.pack("!i", len(self.body) + 4) + self.body


_TLS_PLEASE = _Message(b"", struct.pack("!i", 80877103))
_COMMIT = _Message(b"Q", b"COMMIT\0")
_NUMBER = _Message(b"Q", b"SELECT pg_catalog.pg_current_xact_id()::pg_catalog.text\0")
_ROW, _ERROR, _READY = b"D", b"E", b"Z"
_BY_SASL, _BOUND = struct.pack("!i", 10), b"SCRAM-SHA-256-PLUS\0"


class _Side(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def receive(self, *, first: bool = False) -> _Message:
        """Receive a message.

        The `first` message of a connection has no kind. Raises EOFError when the other side has closed the connection.
        """
        kind = b"" if first else await self.reader.readexactly(1)
        (size,) = struct.unpack("!i", await self.reader.readexactly(4))
        return _Message(kind, await self.reader.readexactly(size - 4))

    async def send(self, message: _Message) -> None:
        self.writer.write(message.packed)
        await self.writer.drain()


class RestoreProxy:
    """Forwards connections of pg_restore to the instance.

    `refusal` is the error of the proxy, which pg_restore cannot know. `is_permitted` is True if a commit was permitted.
    """

    def __init__(self, endpoint: Endpoint, permit: Permit) -> None:
        self._endpoint = endpoint
        self._permit = permit
        self._carrying: set[asyncio.Task[None]] = set()
        self.refusal: Exception | None = None
        self.is_permitted = False

    @asynccontextmanager
    async def listening(self, directory: Path) -> AsyncIterator[None]:
        """Listen like a PostgreSQL server whose socket is in `directory`."""
        server = await asyncio.start_unix_server(self._begin, f"{directory}/.s.PGSQL.{PORT}", limit=_AT_ONCE)
        try:
            yield
        finally:
            server.close()
            for task in self._carrying:
                task.cancel()
            await asyncio.gather(*self._carrying, return_exceptions=True)

    def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._carry(_Side(reader, writer)))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    async def _carry(self, program: _Side) -> None:
        """Forward one connection of the program, until either side closes it."""
        sides = [program]
        try:
            sides.append(server := await _connected(self._endpoint))
            await _Conversation(program, server, self._permitted).run()
        except _CUT:
            pass  # the program notices that itself
        except Exception as error:
            self.refusal = error
        finally:
            for side in sides:
                side.writer.close()

    async def _permitted(self, number: str) -> None:
        await self._permit(number)
        self.is_permitted = True


class _Conversation:
    def __init__(self, program: _Side, server: _Side, permit: Permit) -> None:
        self._program = program
        self._server = server
        self._permit = permit
        self._answers: asyncio.Queue[_Message] | None = None

    async def run(self) -> None:
        up, down = asyncio.create_task(self._up()), asyncio.create_task(self._down())
        try:
            await asyncio.wait([up, down], return_when=asyncio.FIRST_COMPLETED)
            for ended in (up, down):
                if ended.done():
                    ended.result()
        finally:
            up.cancel()
            down.cancel()
            await asyncio.gather(up, down, return_exceptions=True)

    async def _up(self) -> None:
        await self._server.send(await self._program.receive(first=True))
        while True:
            message = await self._program.receive()
            if message == _COMMIT:
                await self._permit(await self._number())
            await self._server.send(message)

    async def _down(self) -> None:
        while True:
            message = await self._server.receive()
            if self._answers is None:
                await self._program.send(_unbound(message))
            else:
                self._answers.put_nowait(message)

    async def _number(self) -> str:
        """Query the number of the transaction. The program waits, so the server's next messages answer this query."""
        self._answers = answers = asyncio.Queue[_Message]()
        await self._server.send(_NUMBER)
        number = ""
        while (message := await answers.get()).kind != _READY:
            if message.kind == _ERROR:
                raise BackupFailed(
                    "The instance's server did not return the transaction's number: check the server's log."
                )
            if message.kind == _ROW:
                number = message.body[6:].decode()  # after the number of columns and the length of this one
        self._answers = None
        return number


def _unbound(message: _Message) -> _Message:
    """Remove SCRAM with channel binding from the offer, because TLS ends in this proxy, which verifies the server."""
    if message.kind == b"R" and message.body.startswith(_BY_SASL):
        return message._replace(body=message.body.replace(_BOUND, b""))
    return message


async def _connected(endpoint: Endpoint) -> _Side:
    """Connect over TLS, verified as in every client connection of Interlock. Raises DatabaseUnreachable."""
    mode = sslmode(endpoint.host, endpoint.ca)
    trusting = ssl.create_default_context(cadata=endpoint.ca)
    trusting.check_hostname = mode == "verify-full"
    if mode == "require":
        trusting.verify_mode = ssl.CERT_NONE
    writer = None
    try:
        async with asyncio.timeout(_CONNECT_WITHIN):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, limit=_AT_ONCE)
            await (side := _Side(reader, writer)).send(_TLS_PLEASE)
            if await reader.readexactly(1) != b"S":
                raise OSError("it does not support TLS")
            await writer.start_tls(trusting, server_hostname=endpoint.host)
            return side
    except _CUT as error:
        if writer is not None:
            writer.close()
        raise DatabaseUnreachable(
            f"The instance at {endpoint.host}:{endpoint.port} cannot be reached ({error}): check that it runs, and "
            "try again."
        ) from error
